"""train_many with a folder: stored results are not computed again, and no file holds half a result."""

import linecache
import random
import runpy
import tracemalloc
from functools import partial, wraps

import cloudpickle
import pytest

from rlrepro.fixes import train_many
from rlrepro.fixes.train_many import runs
from rlrepro.fixes.train_many.digest import digest
from rlrepro.fixes.train_many.result_folder import ResultFolder

from .test_train_many import QUIET, calls, draw, note, square


@pytest.mark.slow
def test_a_second_call_runs_the_missing_configs(tmp_path):
    (tmp_path / "fail-b").touch()
    configs = [{"folder": str(tmp_path), "name": name} for name in "abc"]
    results = tmp_path / "results"
    first = train_many(note, configs, n_jobs=2, resume=results, **QUIET)
    assert [outcome.value for outcome in first] == ["a", None, "c"]
    (tmp_path / "fail-b").unlink()
    all_configs = [*configs[::-1], {"folder": str(tmp_path), "name": "d"}]
    second = train_many(note, all_configs, n_jobs=2, resume=results, **QUIET)
    assert [outcome.value for outcome in second] == ["c", "b", "a", "d"]
    assert calls(tmp_path) == ["a", "b", "b", "c", "d"]
    assert second[0].seconds == first[2].seconds


@pytest.mark.slow
def test_another_function_or_seed_does_not_reuse_results(tmp_path):
    train_many(square, [{"x": 2}], n_jobs=1, resume=tmp_path, **QUIET)
    assert train_many(abs, [{"x": 2}], n_jobs=1, resume=tmp_path, **QUIET)[0].error is not None
    values = [train_many(draw, [{"x": 2}], n_jobs=1, seed=s, resume=tmp_path, **QUIET)[0].value for s in (0, 1, 0)]
    assert values[0] == values[2] != values[1]


class Scale:
    def by(self, x):
        return x


def twice(fn):
    @wraps(fn)
    def called(**config):
        return fn(**config) * 2

    return called


@twice
def decorated(x):
    return x


@pytest.mark.slow
@pytest.mark.parametrize("fn", [partial(square), lambda x: x, Scale().by, twice(square)])
def test_a_function_without_a_unique_name_is_not_resumed(fn, tmp_path):
    with pytest.raises(ValueError, match="with resume, fn must be a function with a unique name"):
        train_many(fn, [{"x": 2}], resume=tmp_path, **QUIET)
    assert train_many(fn, [{"x": 2}], n_jobs=1, **QUIET)[0].error is None


@pytest.mark.parametrize("fn", [[3, 1].sort, {}.setdefault, "a-b".split, random.random, Scale().by.__call__])
def test_a_bound_method_is_not_resumed(fn, tmp_path):
    with pytest.raises(ValueError, match="with resume, fn must be a function with a unique name"):
        train_many(fn, [{}], resume=tmp_path, **QUIET)


@pytest.mark.slow
def test_a_decorated_function_and_a_builtin_are_resumed(tmp_path):
    for _ in range(2):
        (outcome,) = train_many(decorated, [{"x": 2}], n_jobs=1, resume=tmp_path, **QUIET)
        assert outcome.value == 4, outcome.error
    assert len(list(tmp_path.glob("*.pickle"))) == 1
    train_many(sorted, [{}], n_jobs=1, resume=tmp_path / "builtin", **QUIET)  # it fails, but not because of its name


@pytest.mark.slow
def test_a_result_that_can_not_be_read_is_computed_again(tmp_path):
    configs = [{"folder": str(tmp_path), "name": "a"}]
    train_many(note, configs, n_jobs=1, resume=tmp_path / "results", **QUIET)
    (path,) = (tmp_path / "results").glob("*.pickle")
    path.write_bytes(path.read_bytes()[:5])
    with pytest.warns(UserWarning, match="can't be read"):
        (outcome,) = train_many(note, configs, n_jobs=1, resume=tmp_path / "results", **QUIET)
    assert outcome.value == "a" and calls(tmp_path) == ["a", "a"]


def test_two_runs_do_not_share_a_folder(tmp_path):
    with ResultFolder(tmp_path), pytest.raises(RuntimeError, match=f"another call is using {tmp_path}"):
        train_many(square, [{"x": 1}], resume=tmp_path, **QUIET)


def test_a_folder_that_cannot_be_written_is_reported_before_anything_runs(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="can't write results"):
        train_many(note, [{"folder": str(tmp_path), "name": "a"}], resume=tmp_path / "file" / "results", **QUIET)
    assert calls(tmp_path) == []


@pytest.mark.slow
def test_a_folder_can_be_used_again_after_a_full_disk(tmp_path, monkeypatch):
    with monkeypatch.context() as full_disk:
        full_disk.setattr(cloudpickle, "dump", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left") as raised:
            train_many(square, [{"x": 1}], resume=tmp_path, **QUIET)
    assert raised and train_many(square, [{"x": 1}], n_jobs=1, resume=tmp_path, **QUIET)[0].value == 1


@pytest.mark.slow
def test_a_disk_that_fills_up_does_not_lose_results(tmp_path, monkeypatch):
    save = ResultFolder.save

    def save_unless_full(self, key, result):
        if key != "writable":
            raise OSError(28, "No space left on device")
        save(self, key, result)

    monkeypatch.setattr(ResultFolder, "save", save_unless_full)
    with pytest.warns(UserWarning, match="No space left on device"):
        outcomes = train_many(square, [{"x": 2}, {"x": 3}], n_jobs=1, resume=tmp_path, **QUIET)
    assert [outcome.value for outcome in outcomes] == [4, 9]


def test_half_a_result_is_never_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(cloudpickle, "dump", lambda result, file: (file.write(b"half"), file.flush(), 1 / 0))
    folder = ResultFolder(tmp_path)
    with pytest.raises(ZeroDivisionError):
        folder.save("a", 1)
    assert not list(tmp_path.glob("*.pickle"))


def applied(f):
    return f(3)


def test_an_edit_before_the_call_is_not_taken_for_the_running_code(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("def fn(x): return x * 2")
    names = runpy.run_path(str(script))
    script.write_text("def fn(x): return x * 3")
    linecache.checkcache()
    edited = runpy.run_path(str(script))
    assert runs._source(names["fn"]) != runs._source(edited["fn"])


@pytest.mark.slow
def test_functions_in_configs_are_distinguished_by_their_code(tmp_path):
    def scaled(k):
        return lambda x: k * x

    for factors in ((2, 4), (4, 2)):
        outcomes = train_many(applied, [{"f": scaled(k)} for k in factors], n_jobs=1, resume=tmp_path, **QUIET)
        assert [outcome.value for outcome in outcomes] == [3 * k for k in factors]
    assert len(list(tmp_path.glob("*.pickle"))) == 2


def test_defaults_and_code_without_text_are_part_of_a_function():
    def multiply(k):
        def fn(x, k=k):
            return x * k

        return fn

    assert runs._source(multiply(2)) == runs._source(multiply(2)) != runs._source(multiply(3))
    typed = []
    for text in ("x * 2", "x * 3"):
        names = {}
        exec(f"def fn(x): return {text}", names)
        typed.append(runs._source(names["fn"]))
    assert typed[0] != typed[1] and "unknown" not in typed
    assert runs._source(abs) == "unknown"


def test_waiting_configs_are_not_pickled_yet():
    data = bytes(2**20)

    def element(x):
        return data[x]

    tracemalloc.start()
    waiting = runs.prepare(element, [{"x": x} for x in range(50)], 0)
    traced_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert traced_bytes < 2**20 and len(waiting[0].payload()) > 2**20


def test_a_list_that_a_config_holds_twice_is_as_good_as_two_equal_ones():
    layers = [64, 64]
    assert digest({"actor": layers, "critic": layers}) == digest({"actor": [64, 64], "critic": [64, 64]})
    endless = []
    endless.append(endless)
    assert digest(endless)
