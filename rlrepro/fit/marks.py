"""Marks for the planner in a training script. They do nothing outside a plan, and none of them imports torch."""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext

_stages = []  # of the dry run in progress: a function that returns a stage's context
_read_values = []  # values that `.item()` and the like return
_notes = []  # of the dry run in progress: a dict whose keys are its notes
_all_true_masks = []  # not empty while masks are all true
ATTRIBUTE = "__rlrepro_update__"


def stage(name: str):
    """`with stage("learn"):` names a part of an update, for its plan."""
    return _stages[-1](name) if _stages else nullcontext()


@contextmanager
def reads(value):
    """In this block, code that reads a number from a tensor (`.item()`, `if tensor:`) gets `value` in a plan, and so
    takes the branch that you choose. Elsewhere it gets 1, or True."""
    _read_values.append(value)
    try:
        yield
    finally:
        _read_values.pop()


@contextmanager
def keeps_all():
    """In this block, a plan assumes that masks which select rows (`rows[mask]`) are all true. Elsewhere, it can't plan
    them, because the number of selected rows depends on values."""
    _all_true_masks.append(True)
    try:
        yield
    finally:
        _all_true_masks.pop()


def plannable(make: Callable | None = None, **sizes) -> Callable:
    """Mark the function that `rlrepro fit train.py` plans: one update, `step(state, **sizes)`, where `make()` builds
    the state; or, without `make`, a function that trains, whose first updates are planned."""

    def mark(function):
        setattr(function, ATTRIBUTE, (make, sizes))
        return function

    return mark


def chosen_branch(value):
    """The value that `reads` has set, or else `value`."""
    return _read_values[-1] if _read_values else value


def masks_keep_all() -> bool:
    return bool(_all_true_masks)


def note(text: str) -> None:
    """Add a note to the plan: something was planned differently from how it will run."""
    if _notes:
        _notes[-1][text] = None


@contextmanager
def naming_stages(enter: Callable, notes: dict[str, None]):
    """Within this context, `stage(name)` is `enter(name)`, and `note(text)` adds to `notes`."""
    _stages.append(enter)
    _notes.append(notes)
    try:
        yield
    finally:
        _stages.pop()
        _notes.pop()
