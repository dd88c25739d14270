"""No call in the package or in a notebook waits without a limit: each has a `timeout`, or a reason for having none."""

import ast

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from .conftest import ROOT

NEED_TIMEOUT = {
    "FileLock",
    "Parallel",
    "acquire",
    "communicate",
    "ray.get",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
}
NEED_TIMEOUT |= {"subprocess.run", "urlopen", "wait("}  # the keyword `timeout`
NEED_ARGUMENT = {"get", "join", "result", "wait"}  # methods: an argument, as "".join and dict.get have one anyway
# These can't have a limit.
NEVER = {"accept", "input", "pause", "recv", "recv_bytes", "recvfrom", "wait3", "wait4", "waitpid"}
ALLOWED = {
    ("lab/worker.py", "recv_bytes"): "the next call of its parent, whose end closes the connection",
    ("lab/release_process.py", "recv_bytes"): "the answer is there; a timer kills a process that sends half of one",
    ("fixes/patient_parallel_env/env.py", "recv"): "the rest of a message that `poll` has seen",
    ("fixes/train_many/isolated_worker.py", "result"): "a call that has ended; `_watch` checks its worker meanwhile",
    ("fixes/train_many/ray_tasks.py", "ray.get"): "a user's training run; Ray says when its process has died",
    ("fixes/train_many/runner.py", "Parallel"): "users' training runs",
    ("fixes/train_many/result_folder.py", "acquire"): "its lock has timeout=0",
}
EXCLUDED = (
    "doctor/",
    "cases/own_code/sample_project/",
)  # the doctor waits for a command of the user; the sample project is only examined


def name_of(function):
    """The name of the called function: for a method, after `subprocess.` or `ray.`; "wait(" for the bare function."""
    if isinstance(function, ast.Attribute):
        owner = getattr(function.value, "id", "")
        return f"{owner}.{function.attr}" if owner in ("subprocess", "ray") else function.attr
    name = getattr(function, "id", "")
    return f"{name}(" if name == "wait" else name


def endless_waits(text):
    """The calls in a text that wait without a limit."""
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call):
            name = name_of(call.func)
            limit = next((keyword.value for keyword in call.keywords if keyword.arg == "timeout"), ast.Constant(None))
            limited = not (isinstance(limit, ast.Constant) and limit.value is None)
            if (
                name in NEVER
                or (name in NEED_TIMEOUT and not limited)
                or (name in NEED_ARGUMENT and not limited and not call.args and isinstance(call.func, ast.Attribute))
            ):
                yield name


def texts():
    """(name, code) of each file of the package and of each notebook."""
    for path in sorted((ROOT / "rlrepro").rglob("*.py")):
        name = path.relative_to(ROOT / "rlrepro").as_posix()
        if not name.startswith(EXCLUDED):
            yield name, path.read_text()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        yield path.name, TransformerManager().transform_cell(code)


def test_every_wait_has_a_limit():
    waits = {(file, name) for file, text in texts() for name in endless_waits(text)}
    assert waits == set(ALLOWED)  # when a call is removed, so is its reason


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run(command, text=True)",
        "subprocess.run(command, timeout=None)",
        "subprocess.check_output(command)",
        "process.communicate()",
        "process.wait()",
        "thread.join()",
        "future.result()",
        "queue.get()",
        "ray.get(tasks)",
        "with FileLock(path): pass",
        "urlopen(address)",
        "wait(sources)",
        "connection.recv()",
    ],
)
def test_a_wait_without_a_limit_is_found(text):
    assert list(endless_waits(text))


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run(command, timeout=allowed)",
        "process.wait(allowed)",
        "', '.join(words)",
        "settings.get('a')",
        "release.run(function)",
        "FileLock(path, timeout=0)",
    ],
)
def test_calls_with_a_limit_or_without_a_wait_are_not_found(text):
    assert not list(endless_waits(text))
