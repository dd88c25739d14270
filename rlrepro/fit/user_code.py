"""Finds the line of the user's code where an update can't be planned, or where memory grows."""

import linecache
import sys
import sysconfig
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch

from rlrepro.fit.memory_plan import CannotPlan

OURS = tuple(str(Path(__file__).parents[1] / part) for part in ("fit", "lab"))
LIBRARIES = (*OURS, str(Path(torch.__file__).parent), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<")
DATA_DEPENDENT = {"DynamicOutputShapeException", "DataDependentOutputException", "UnsupportedOperatorException"}
ADVICE = {  # by what torch's error contains
    "_pack_padded_sequence": "packed sequences can't be planned: pass padded ones",
    "UninitializedParameter": "lazy modules can't be planned: use the modules that they become, with their sizes "
    "(nn.Linear for nn.LazyLinear)",
}


def cannot_plan(error: Exception, subject: str, notes: Iterable[str] = ()) -> CannotPlan:
    """The error with the line of the user's code that raised it, what to do about it, and the plan's notes so far,
    which may be the cause."""
    frames = traceback.extract_tb(error.__traceback__)
    owners = [type(frame.f_locals.get("self")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    optimizer = next((cls for cls in owners if issubclass(cls, torch.optim.Optimizer)), None)
    if known := [text for cause, text in ADVICE.items() if cause in str(error)]:
        advice = f"\n{known[0]}"
    elif type(error).__name__ in DATA_DEPENDENT:
        advice = (
            "\nits result has a size that depends on the values of tensors, which a plan does not have: use a form of "
            "fixed size (torch.where, a mask), put `with rlrepro.fit.keeps_all():` around rows[mask] if the mask may "
            "count as all true, or leave the step out of the plan"
        )
    elif optimizer is not None and optimizer.__module__.partition(".")[0] != "torch":
        advice = f"\nit is raised in {optimizer.__name__}, an optimizer that is not torch's: plan with torch.optim.Adam"
    else:
        advice = ""
    noted = "".join(f"\nnote: {note}" for note in notes)
    return CannotPlan(
        f"{subject} can't be planned: {type(error).__name__}: {error}\n{_location(frames)}{advice}{noted}"
    )


def _location(frames) -> str:
    """The innermost line of the user's code, or else of a library."""
    user_frames = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)]
    frame = user_frames[-1] if user_frames else [frame for frame in frames if not frame.filename.startswith(OURS)][-1:]
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
    """Finds the line whose storages take more memory after each update."""

    def __init__(self, count):
        self._count, self._created = count, {}

    def __enter__(self):
        self._count.changed = self._on_change
        return self

    def __exit__(self, *raised):
        del self._count.changed

    def _on_change(self, address: int, delta: int, created: bool) -> None:
        if delta > 0 and created:
            self._created[address] = delta, own_line()
        elif delta < 0:
            self._created.pop(address, None)

    def live_bytes(self) -> Counter:
        """Bytes in use by the line that created them."""
        lines = Counter()
        for size, line in self._created.values():
            lines[line] += size
        return lines


def advice_on_growth(before: Counter, after: Counter) -> str:
    """The line whose bytes grew the most from one update to the next, and what to do."""
    growth = after - before  # only of lines that grew
    if not growth:
        return "create everything in make()"
    return f"{max(growth, key=growth.get)}\nmake() must create what stays, and step() must not collect tensors"
