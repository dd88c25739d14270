"""What a training script says to the planner. Outside a plan these do nothing, and none of them imports torch."""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext

_stages = []  # of the dry run in progress: a function that makes a stage's context
_chosen = []  # values that code is told it has read
_notes = []  # of the dry run in progress: a dict whose keys are its notes
_masks = []  # not empty while masks are all true
ATTRIBUTE = "__rlrepro_update__"


def stage(name: str):
    """`with stage("learn"):` names a part of an update, for its plan."""
    return _stages[-1](name) if _stages else nullcontext()


@contextmanager
def reads(value):
    """In this block, a plan answers `value` where the code reads a number from a tensor (`.item()`, `if tensor:`), and
    so takes the branch that you choose. Otherwise it answers 1, or True."""
    _chosen.append(value)
    try:
        yield
    finally:
        _chosen.pop()


@contextmanager
def keeps_all():
    """In this block, a plan takes masks that choose rows (`rows[mask]`) to be all true. Outside it, it can't plan them:
    the size of what they choose depends on values."""
    _masks.append(True)
    try:
        yield
    finally:
        _masks.pop()


def plannable(make: Callable | None = None, **sizes) -> Callable:
    """Marks the function that `rlrepro fit train.py` plans: one update, `step(state, **sizes)`, where `make()` builds
    the state; or, without `make`, a function that trains, of which the first updates are planned."""

    def mark(function):
        setattr(function, ATTRIBUTE, (make, sizes))
        return function

    return mark


def chosen_branch(value):
    """What `reads` says, or `value`."""
    return _chosen[-1] if _chosen else value


def masks_keep_all() -> bool:
    return bool(_masks)


def note(text: str) -> None:
    """Adds what was planned otherwise than it will run to the notes of the plan."""
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
