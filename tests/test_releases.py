"""On the real tianshou 1.0.0; `module` fixtures keep one process for many tests."""

import errno
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest

from rlrepro.lab import Release, ReleaseDied, ReleaseError, ReleaseUnavailable, timeline
from rlrepro.lab.overlays import install, overlay_folder, parse_release


@pytest.fixture(scope="module")
def old():
    with Release("tianshou==1.0.0") as release:
        yield release


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RLREPRO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_network(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


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


@pytest.mark.slow
def test_the_installed_release_needs_no_overlay(empty_cache):
    import tianshou

    with Release(f"tianshou=={tianshou.__version__}") as release:
        assert release.install() is None
        assert release.run(version) == tianshou.__version__
    assert not empty_cache.exists()


def test_what_it_prints_appears_here_as_it_comes(old, capsys):
    old.run(lambda: (print("to stdout"), print("to stderr", file=sys.stderr), os.system("echo from a shell")))
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("to stdout", "to stderr", "from a shell"))


class OwnError(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def test_an_exception_comes_back_as_itself_with_its_traceback(old):
    def inner_function():
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing") as raised:
        old.run(inner_function)
    assert "inner_function" in str(raised.value.__cause__) and "tianshou==1.0.0" in str(raised.value.__cause__)


def test_an_exception_that_does_not_pickle_comes_as_text(old):
    def fail():
        raise OwnError("this", "that")

    with pytest.raises(ReleaseError, match="OwnError: this and that"):
        old.run(fail)
    assert old.run(version) == "1.0.0"


def test_a_result_that_exists_only_there_is_explained(old):
    def policy_class():
        from tianshou.policy import PPOPolicy

        return PPOPolicy

    with pytest.raises(ReleaseError, match="plain numbers"):
        old.run(policy_class)
    assert old.run(version) == "1.0.0"


@pytest.mark.slow
@pytest.mark.parametrize(
    "die, how", [(lambda: os._exit(3), "exit code 3"), (lambda: os.kill(os.getpid(), signal.SIGKILL), "signal 9")]
)
def test_a_process_that_dies_is_named_and_the_next_call_works(old, die, how):
    def last_words():
        print("my last words")
        die()

    with pytest.raises(ReleaseDied) as raised:
        old.run(last_words)
    assert all(text in str(raised.value) for text in ("tianshou==1.0.0", how, "last_words", "my last words"))
    assert old.run(version) == "1.0.0"


def test_threads_take_turns(old):
    from concurrent.futures import ThreadPoolExecutor

    def slow(number):
        import time

        time.sleep(0.02)
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda number: old.run(slow, number), range(8))) == list(range(8))


def test_a_function_that_closes_its_output_still_answers(old):
    def silent():
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        time.sleep(0.5)
        return 1

    assert old.run(silent) == 1
    old.close()


def test_a_death_is_noticed_though_a_process_it_started_lives_on(old):
    with pytest.raises(ReleaseDied, match="exit code 3"):
        old.run(lambda: (os.system("sleep 20 &"), os._exit(3)))


def test_an_overlay_that_is_damaged_is_not_passed_over(empty_cache):
    folder = overlay_folder("tianshou==1.0.0")
    folder.mkdir(parents=True)
    with pytest.raises(ReleaseUnavailable, match="damaged"):
        Release("tianshou==1.0.0").run(version)


@pytest.fixture
def copy_of(tmp_path, monkeypatch):
    """A copy of an overlay, which may be damaged."""

    def copy(requirement):
        source = install(requirement)
        monkeypatch.setenv("RLREPRO_CACHE", str(tmp_path / "cache"))
        return Path(shutil.copytree(source, overlay_folder(requirement)))

    return copy


def cut(path):
    path.write_text(path.read_text().partition("    def process_fn")[0])


def change_one_byte(path):
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))


@pytest.mark.parametrize(
    "damage, file",
    [
        (cut, "tianshou/policy/modelfree/ppo.py"),
        (change_one_byte, "tianshou/policy/modelfree/ppo.py"),
        (os.unlink, "tianshou/policy/modelfree/ppo.py"),
        (lambda path: path.write_text(""), "tianshou/policy/modelfree/added.py"),
        (os.unlink, "tianshou-1.0.0.dist-info/RECORD"),
    ],
)
def test_an_overlay_of_which_a_file_is_damaged_is_not_used(copy_of, damage, file):
    folder = copy_of("tianshou==1.0.0")
    assert install("tianshou==1.0.0") == folder
    damage(folder / file)
    named = "tianshou 1.0.0" if file.endswith("RECORD") else re.escape(str(folder / file))
    with pytest.raises(ReleaseUnavailable, match=rf"{named}.*Remove the folder {re.escape(str(folder))}"):
        Release("tianshou==1.0.0").run(version)


def test_removing_a_damaged_overlay_installs_it_anew(copy_of):
    shutil.rmtree(copy_of("tianshou==1.0.0"))
    assert install("tianshou==1.0.0") == overlay_folder("tianshou==1.0.0")


def test_a_wheel_that_is_missing_beside_its_release_is_named(copy_of):
    """The environment's own tensordict would be imported in its place."""
    folder = copy_of("torchrl==0.6.0")
    tensordict = folder / "tensordict"
    tensordict.rename(folder.parent / "away")
    with pytest.raises(ReleaseUnavailable, match=rf"{re.escape(str(tensordict))}/\S+ can't be read \(No such file"):
        install("torchrl==0.6.0")
    shutil.rmtree(folder / "tensordict-0.6.2.dist-info")
    with pytest.raises(ReleaseUnavailable, match=r"tensordict 0\.6\.2 or its list of files is missing"):
        install("torchrl==0.6.0")


def test_a_disk_that_is_full_is_said_as_such(empty_cache):
    """A limit on the size of a file makes the system refuse the write, as a full disk does."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**15, 2**15)); "
    done = subprocess.run([sys.executable, "-c", limit + INSTALL[-1]], capture_output=True, text=True)
    assert "a file could not be written. Free some space" in done.stderr and "index could not" not in done.stderr
    (said,) = re.findall("pip said: (.*)", done.stderr)
    assert os.strerror(errno.EFBIG) in said and "TMPDIR" in done.stderr
    assert not overlay_folder("tianshou==1.0.0").exists()


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


def test_a_cache_that_cannot_be_written_is_named(monkeypatch):
    monkeypatch.setenv("RLREPRO_CACHE", "/proc/nowhere")
    with pytest.raises(ReleaseUnavailable, match="RLREPRO_CACHE"):
        install("tianshou==1.0.0")


@pytest.mark.slow
def test_an_interrupt_ends_the_child_and_the_next_call_works(old):
    pid = old.run(os.getpid)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored in the background
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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.slow
def test_shows_source_and_diff(old):
    target = "tianshou.policy:PPOPolicy.process_fn"
    source = old.source(target)
    assert "batch.logp_old = self(batch).dist.log_prob(batch.act)" in source.text
    with Release("tianshou==1.1.0") as fixed:
        diff = source.diff(fixed.source(target))
    assert "-        batch.logp_old = self(batch)" in diff.text and "+        for minibatch in" in diff.text
    assert diff._repr_markdown_().startswith("```diff\n") and source._repr_markdown_().count("```") == 2


def test_a_source_names_its_lines_where_the_library_is_developed(old):
    source = old.source("tianshou.policy:PPOPolicy.process_fn")
    found = re.fullmatch(r"https://github.com/thu-ml/tianshou/blob/v1.0.0/(.*)#L(\d+)-L(\d+)", source.url)
    lines = (old.install() / found[1]).read_text().splitlines()[int(found[2]) - 1 : int(found[3])]
    assert inspect.cleandoc("\n" + "\n".join(lines)) + "\n" == source.text
    assert source.url in source._repr_markdown_()
    assert old.source("rlrepro.lab.units:format_value").url == ""


@pytest.mark.slow
def test_a_decorated_function_is_linked_to_where_it_is_written():
    with Release("torchrl==0.6.0") as release:
        url = release.source("torchrl.objectives.ppo:PPOLoss.forward").url
    assert re.fullmatch(r"\S+/blob/v0.6.0/torchrl/objectives/ppo.py#L\d+-L\d+", url)


def test_no_network_and_no_overlay_says_what_to_do(empty_cache, no_network):
    with pytest.raises(ReleaseUnavailable) as raised:
        Release("tianshou==1.0.0").run(version)
    for part in ("tianshou==1.0.0", str(empty_cache), "python -m rlrepro fetch 'tianshou==1.0.0'", "not be reached"):
        assert part in str(raised.value)
    assert not overlay_folder("tianshou==1.0.0").exists()


@pytest.mark.slow
def test_an_overlay_that_is_there_needs_no_network(old, no_network):
    assert Release("tianshou==1.0.0").run(version) == "1.0.0"


def test_a_release_that_does_not_exist_lists_those_that_do(empty_cache):
    with pytest.raises(ReleaseUnavailable, match=r"no version 99\.0.*1\.2\.0.*2\.0\.1"):
        install("tianshou==99.0")
    assert [path.suffix for path in overlay_folder("tianshou==99.0").parent.iterdir()] == [".lock"]


def test_a_file_with_another_hash_is_refused(empty_cache, monkeypatch):
    wrong = {"tianshou==1.0.0": ["tianshou==1.0.0 --hash=sha256:" + "0" * 64]}
    monkeypatch.setattr("rlrepro.lab.overlays.known_releases", lambda: wrong)
    with pytest.raises(ReleaseUnavailable, match="another hash"):
        install("tianshou==1.0.0")
    assert not overlay_folder("tianshou==1.0.0").exists()


INSTALL = [sys.executable, "-c", "from rlrepro.lab.overlays import install; print(install('tianshou==1.0.0'))"]


def test_a_killed_installation_leaves_nothing_in_place(empty_cache):
    folder = overlay_folder("tianshou==1.0.0")
    process = subprocess.Popen(INSTALL, start_new_session=True)
    while not list(folder.parent.glob(".partial-*/requirements.txt")):
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not folder.exists() and list(folder.parent.glob(".partial-*"))
    install("tianshou==1.0.0")
    assert (folder / "tianshou" / "__init__.py").exists() and not list(folder.parent.glob(".partial-*"))


def test_two_at_once_install_one(empty_cache):
    processes = [subprocess.Popen(INSTALL, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {process.communicate()[0].strip() for process in processes}
    assert folders == {str(overlay_folder("tianshou==1.0.0"))} and not any(p.returncode for p in processes)


@pytest.mark.slow
def test_another_python_gets_its_own_overlay(empty_cache, tmp_path):
    other = "3.11" if sys.version_info[:2] == (3, 12) else "3.12"
    tag = f"cp{other.replace('.', '')}"
    folder = install("torchrl==0.7.0", other)  # compiled, with tensordict beside it
    assert folder == empty_cache / "overlays" / f"{tag.replace('cp', 'cpython-')}-linux-x86_64" / "torchrl-0.7.0"
    assert [f"Tag: {tag}-{tag}-" in path.read_text() for path in folder.glob("*.dist-info/WHEEL")] == [True, True]
    assert install("tianshou==1.0.0", other, tmp_path / "there").is_relative_to(tmp_path / "there")


def test_the_folder_named_for_a_python_is_the_one_where_it_looks(empty_cache):
    if sysconfig.get_platform() == "linux-x86_64":
        here = "{}.{}".format(*sys.version_info)
        assert overlay_folder("tianshou==1.0.0", here) == overlay_folder("tianshou==1.0.0")


def test_no_network_for_another_python_says_what_to_do(empty_cache, no_network):
    with pytest.raises(ReleaseUnavailable, match=r"fetch 'torchrl==0\.7\.0' --python 3\.12"):
        install("torchrl==0.7.0", "3.12")


@pytest.mark.parametrize(
    "text", ["tianshou", "tianshou>=1", "tianshou==1.*", "", "tianshou==1.0.0==2", "-r x", "tianshou[a]==1.0"]
)
def test_rejects_what_is_not_a_release(text):
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


def test_a_timeline_uses_what_runs_already(old):
    (point,) = timeline("tianshou", ["1.0.0"], os.getpid, running=[old])
    assert point.value == old.run(os.getpid)


@pytest.mark.slow
def test_a_timeline_says_why_a_release_has_no_value():
    points = timeline("tianshou", ["0.4.11", "99.0", "1.0.0"], version, at_once=2)
    assert [point.value for point in points] == [None, None, "1.0.0"]
    assert "No module named 'gym'" in points[0].error and "no version 99.0" in points[1].error


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def raise_two():
    raise TwoArguments("one", "two")


def test_an_exception_that_no_process_can_unpickle_is_not_blamed_on_the_release(old):
    with pytest.raises(ReleaseError, match="can't be pickled and unpickled: TwoArguments: one"):
        old.run(raise_two)
