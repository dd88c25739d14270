"""train_many(resume=) when a script is run again, unchanged or with other constants and classes."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

from rlrepro.fixes import train_many
from rlrepro.fixes.train_many import digest, runs

SECONDS = 120  # for a script

CONSTANT = """
import sys, warnings
from rlrepro.fixes import train_many

STEPS = {steps}
UNUSED = {unused}

def fn(lr):
    return [STEPS * rate for rate in [lr]][0]

if __name__ == "__main__":
    print(train_many(fn, [{{"lr": 0.5}}], n_jobs=1, resume=sys.argv[1], progress=False)[0].value)
"""

CLASS = """
import enum, sys
from dataclasses import dataclass
from pathlib import Path
from rlrepro.fixes import train_many

@dataclass
class Result:
    score: float

    def text(self):
        return "{text} " + str(self.score)

    class Part:
        pass

class Level(enum.Enum):
    HIGH = 2

def fn(lr):
    with Path(sys.argv[1], "calls").open("a") as file:
        file.write("called\\n")
    class Local:
        rate = lr
    return Result(lr), Result.Part(), Level.HIGH, Local()

if __name__ == "__main__":
    (outcome,) = train_many(fn, [{{"lr": 0.5}}], n_jobs=1, resume=sys.argv[1], progress=False)
    result, part, level, local = outcome.value
    print(result.text(), isinstance(result, Result), isinstance(part, Result.Part), level is Level.HIGH, local.rate)
"""

RENAMED = """
import sys
from rlrepro.fixes import train_many

class {name}:
    pass

def make():
    return {name}()

def fn(lr):
    return make()

if __name__ == "__main__":
    (outcome,) = train_many(fn, [{{"lr": 0.5}}], n_jobs=1, resume=sys.argv[1], progress=False)
    print(type(outcome.value).__name__)
"""


def run(source, tmp_path, **values):
    """What the script prints, and its warnings."""
    script = tmp_path / "script.py"
    script.write_text(source.format(**values))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, script, tmp_path]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=SECONDS)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip(), completed.stderr


@pytest.mark.slow
def test_a_changed_constant_is_other_code(tmp_path):
    for unused in (1, 2):
        assert run(CONSTANT, tmp_path, steps=1000, unused=unused)[0] == "500.0"
    assert len(list(tmp_path.glob("*.pickle"))) == 1
    output, warning = run(CONSTANT, tmp_path, steps=2000, unused=2)
    assert output == "1000.0" and "global constants" in warning
    assert run(CONSTANT, tmp_path, steps=1000, unused=2)[0] == "500.0"
    assert len(list(tmp_path.glob("*.pickle"))) == 2


@pytest.mark.slow
def test_a_loaded_result_has_the_classes_of_the_script(tmp_path):
    for text in ("first", "first", "second"):  # the text is outside of fn
        assert run(CLASS, tmp_path, text=text)[0] == f"{text} 0.5 True True True 0.5"
    assert (tmp_path / "calls").read_text() == "called\n"


@pytest.mark.slow
def test_a_run_whose_result_has_no_class_any_more_is_repeated(tmp_path):
    for name in ("First", "Second"):
        assert run(RENAMED, tmp_path, name=name)[0] == name


def source_with(**names):
    source = (
        "def fn(x):\n    class Inner:\n        size = SIZE\n    return (lambda: x * STEPS + np.pi), Inner, other(x)\n"
    )
    exec(source, names)
    return runs._source(names["fn"])


def test_only_plain_data_that_a_function_reads_is_compared():
    base = {"STEPS": 3, "SIZE": 4, "np": np, "other": abs}
    assert source_with(**base) == source_with(**base) == source_with(**base, unread=1, __file__="b")
    assert source_with(**base) == source_with(**base | {"other": print, "np": os})
    plain = [4, 3.0, True, None, "3", b"3", (3,), [3], {3}, {"a": [3, (4, None)]}, np.float32(3), np.int64(3)]
    digests = [source_with(**base)] + [source_with(**base | {"STEPS": value}) for value in plain]
    assert len(set(digests)) == len(digests)
    assert source_with(**base) != source_with(**base | {"SIZE": 5})  # in the body of a class
    circular = []
    circular.append(circular)
    others = {source_with(**base | {"STEPS": value}) for value in (circular, [abs], object(), np.ones(3), np.zeros(3))}
    assert len(others) == 1  # left out


def test_equal_constants_have_equal_digests():
    shared = (1.5, "a")
    assert source_with(STEPS=shared, SIZE=shared) == source_with(STEPS=shared, SIZE=(*shared,))


def test_functions_without_constants_keep_the_names_of_their_results():
    parts = [run_twice.__code__, (3,), None, inspect.getsource(run_twice)]
    assert runs._source(run_twice) == digest.digest(parts)[:12]


def run_twice(x=3):
    return train_many, x
