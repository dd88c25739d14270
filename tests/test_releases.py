"""Releases, with the real tianshou 1.0.0; `module` fixtures keep one process for many tests."""

import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from rlrepro.lab import Release, ReleaseDied, ReleaseError, ReleaseUnavailable, timeline
from rlrepro.lab.overlays import parse_release


@pytest.fixture(scope="module")
def old():
    with Release("tianshou==1.0.0") as release:
        yield release


def version():
    import tianshou

    return tianshou.__version__


@pytest.mark.slow
def test_runs_a_function_under_the_release(old):
    import tianshou

    assert old.run(version) == "1.0.0" != tianshou.__version__
    assert old.run(lambda a, b: a - b, 5, b=3) == 2


def test_keeps_one_process(old):
    assert old.run(os.getpid) == old.run(os.getpid) != os.getpid()


def test_its_output_appears_here_immediately(old, capsys):
    old.run(lambda: (print("to stdout"), print("to stderr", file=sys.stderr), os.system("echo from a shell")))
    output = capsys.readouterr().out
    assert all(text in output for text in ("to stdout", "to stderr", "from a shell"))


class OwnError(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def test_an_exception_comes_back_as_itself_with_its_traceback(old):
    def inner_function():
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing") as raised:
        old.run(inner_function)
    assert "inner_function" in str(raised.value.__cause__) and "tianshou==1.0.0" in str(raised.value.__cause__)


@pytest.mark.slow
def test_an_exception_that_does_not_pickle_comes_as_text(old):
    def fail():
        raise OwnError("this", "that")

    with pytest.raises(ReleaseError, match="OwnError: this and that"):
        old.run(fail)
    assert old.run(version) == "1.0.0"


def test_a_result_that_exists_only_in_the_release_is_explained(old):
    def policy_class():
        from tianshou.policy import PPOPolicy

        return PPOPolicy

    with pytest.raises(ReleaseError, match="plain numbers"):
        old.run(policy_class)
    assert old.run(version) == "1.0.0"


@pytest.mark.slow
@pytest.mark.parametrize(
    "die, status", [(lambda: os._exit(3), "exit code 3"), (lambda: os.kill(os.getpid(), signal.SIGKILL), "signal 9")]
)
def test_a_process_that_dies_is_named_and_the_next_call_works(old, die, status):
    def last_words():
        print("my last words")
        die()

    with pytest.raises(ReleaseDied) as raised:
        old.run(last_words)
    assert all(text in str(raised.value) for text in ("tianshou==1.0.0", status, "last_words", "my last words"))
    assert old.run(version) == "1.0.0"


def test_threads_take_turns(old):
    from concurrent.futures import ThreadPoolExecutor

    def slow(number):
        import time

        time.sleep(0.02)
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda number: old.run(slow, number), range(8))) == list(range(8))


def test_a_function_that_closes_its_output_still_returns(old):
    def silent():
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        time.sleep(0.5)
        return 1

    assert old.run(silent) == 1
    old.close()


def test_a_death_is_noticed_even_if_a_child_process_survives(old):
    with pytest.raises(ReleaseDied, match="exit code 3"):
        old.run(lambda: (os.system("sleep 20 &"), os._exit(3)))


def test_a_folder_that_no_import_path_can_hold_is_refused(tmp_path):
    package = tmp_path / "a:b" / "tianshou"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    with pytest.raises(ReleaseUnavailable, match="':'"):
        Release("tianshou", path=package.parent).run(version)


def test_one_spelling_of_a_release(old):
    assert Release("Tianshou == 1.0.0").requirement == "tianshou==1.0.0"
    assert parse_release("Stable_Baselines3==2.9.2") == ("stable-baselines3", "2.9.2")


def test_variables_reach_the_process():
    with Release("tianshou==1.0.0", environment={"RLREPRO_TEST": "here"}) as release:
        assert release.run(os.getenv, "RLREPRO_TEST") == "here"


@pytest.mark.slow
def test_an_interrupt_ends_the_child_and_the_next_call_works(old):
    pid = old.run(os.getpid)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process of a shell ignores it
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            old.run(time.sleep, 60)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert old.run(version) == "1.0.0"


def test_a_child_ends_with_its_parent():
    script = "from rlrepro.lab import Release; import os; print(Release('tianshou==1.0.0').run(os.getpid))"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(completed.stdout), 0)


@pytest.mark.slow
def test_shows_source_and_diff(old):
    target = "tianshou.policy:PPOPolicy.process_fn"
    source = old.source(target)
    assert "batch.logp_old = self(batch).dist.log_prob(batch.act)" in source.text
    with Release("tianshou==1.1.0") as fixed:
        diff = source.diff(fixed.source(target))
    assert "-        batch.logp_old = self(batch)" in diff.text and "+        for minibatch in" in diff.text
    assert diff._repr_markdown_().startswith("```diff\n") and source._repr_markdown_().count("```") == 2


@pytest.mark.slow
def test_a_source_links_to_its_lines_in_the_librarys_repository(old):
    source = old.source("tianshou.policy:PPOPolicy.process_fn")
    match = re.fullmatch(r"https://github.com/thu-ml/tianshou/blob/v1.0.0/(.*)#L(\d+)-L(\d+)", source.url)
    lines = (old.install() / match[1]).read_text().splitlines()[int(match[2]) - 1 : int(match[3])]
    assert inspect.cleandoc("\n" + "\n".join(lines)) + "\n" == source.text
    assert source.url in source._repr_markdown_()
    assert old.source("rlrepro.lab.units:format_value").url == ""


@pytest.mark.slow
def test_a_decorated_function_is_linked_to_where_it_is_written():
    with Release("torchrl==0.6.0") as release:
        url = release.source("torchrl.objectives.ppo:PPOLoss.forward").url
    assert re.fullmatch(r"\S+/blob/v0.6.0/torchrl/objectives/ppo.py#L\d+-L\d+", url)


@pytest.mark.parametrize(
    "text", ["tianshou", "tianshou>=1", "tianshou==1.*", "", "tianshou==1.0.0==2", "-r x", "tianshou[a]==1.0"]
)
def test_rejects_an_invalid_release(text):
    with pytest.raises(ValueError, match=r"name==version"):
        Release(text)


def test_reads_a_release():
    assert parse_release("tianshou == 1.0.0") == ("tianshou", "1.0.0")


def test_a_source_folder_stands_for_a_release(tmp_path, monkeypatch):
    package = tmp_path / "pearl_source" / "pearlish"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("answer = 42")

    def answer():
        import pearlish

        return pearlish.answer

    assert Release("pearlish", path=package.parent).run(answer) == 42
    monkeypatch.setenv("RLREPRO_PEARLISH", str(package.parent))
    assert Release("pearlish").run(answer) == 42
    with pytest.raises(ReleaseUnavailable, match="no package 'pearlish'"):
        Release("pearlish", path=tmp_path)


def test_a_timeline_uses_releases_that_run_already(old):
    (point,) = timeline("tianshou", ["1.0.0"], os.getpid, running=[old])
    assert point.value == old.run(os.getpid)


@pytest.mark.slow
def test_a_timeline_says_why_a_release_has_no_value():
    points = timeline("tianshou", ["0.4.11", "99.0", "1.0.0"], version, at_once=2)
    assert [point.value for point in points] == [None, None, "1.0.0"]
    assert "No module named 'gym'" in points[0].error and "no version 99.0" in points[1].error
    assert timeline("tianshou", ["1.0.0"], sys.exit, 3)[0].error == "SystemExit: 3"


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def raise_two():
    raise TwoArguments("one", "two")


def test_an_exception_that_no_process_can_unpickle_is_not_blamed_on_the_release(old):
    with pytest.raises(ReleaseError, match="can't be pickled and unpickled: TwoArguments: one"):
        old.run(raise_two)
