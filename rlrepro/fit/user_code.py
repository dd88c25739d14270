"""Finds the user's own line: where an update can't be planned, and where memory grows."""

import linecache
import sys
import sysconfig
import traceback
from pathlib import Path

import torch

from rlrepro.fit.memory_plan import CannotPlan

OURS = tuple(str(Path(__file__).parents[1] / part) for part in ("fit", "lab"))
LIBRARIES = (*OURS, str(Path(torch.__file__).parent), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<")
VALUES = {"DynamicOutputShapeException", "DataDependentOutputException", "UnsupportedOperatorException"}


def cannot_plan(error: Exception, what: str) -> CannotPlan:
    """The error with the line of the user's code that raised it, and what to do about it."""
    frames = traceback.extract_tb(error.__traceback__)
    steps = [type(frame.f_locals.get("self")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    optimizer = next((each for each in steps if issubclass(each, torch.optim.Optimizer)), None)
    advice = ""
    if type(error).__name__ in VALUES:
        advice = (
            "\nits result has a size that depends on the values of tensors, which a plan does not have: use a form of "
            "fixed size (torch.where, a mask), put `with rlrepro.fit.keeps_all():` around rows[mask] if the mask may "
            "count as all true, or leave the step out of the plan"
        )
    elif optimizer is not None and optimizer.__module__.partition(".")[0] != "torch":
        advice = f"\nit is raised in {optimizer.__name__}, an optimizer that is not torch's: plan with torch.optim.Adam"
    return CannotPlan(f"{what} can't be planned: {type(error).__name__}: {error}\n{_place(frames)}{advice}")


def _place(frames) -> str:
    """The innermost line that is the user's, or else of a library."""
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)]
    frame = own[-1] if own else [each for each in frames if not each.filename.startswith(OURS)][-1:]
    frame = frame[0] if isinstance(frame, list) and frame else frame
    return f"at {frame.filename}:{frame.lineno}: {frame.line}" if frame else ""


def own_line() -> str:
    """The line of the user's code that is running: FILE:LINE: source."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    if frame is None:
        return "a line of a library"
    file, line = frame.f_code.co_filename, frame.f_lineno
    return f"{file}:{line}: {linecache.getline(file, line).strip()}"


class GrowingLines:
    """In this context, remembers which lines made the storages that are still there at its end."""

    def __init__(self, count):
        self._count, self._made = count, {}

    def __enter__(self):
        self._count.changed = self._changed
        return self

    def __exit__(self, *raised):
        del self._count.changed

    def _changed(self, address: int, more: int, made: bool) -> None:
        if more > 0 and made:
            self._made[address] = more, own_line()
        elif more < 0:
            self._made.pop(address, None)

    def largest(self) -> str:
        """The line that keeps most."""
        lines = {}
        for size, line in self._made.values():
            lines[line] = lines.get(line, 0) + size
        if not lines:
            return "create everything in make()"
        return f"{max(lines, key=lines.get)}\nmake() must create what stays, and step() must not collect tensors"
