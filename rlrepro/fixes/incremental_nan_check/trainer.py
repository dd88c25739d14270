"""`incremental_nan_check()` changes what tianshou 2.x does after each collect."""

import functools
from collections.abc import Callable
from contextvars import ContextVar

try:
    from tianshou.data import ReplayBuffer, ReplayBufferManager
    from tianshou.trainer import OnlineTrainer
except ImportError as error:
    raise ImportError(
        f"incremental_nan_check needs tianshou 2.x; older releases look for NaN only if you ask them to: {error}"
    ) from error

from .written import WrittenRows

_collecting = ContextVar("a trainer is collecting", default=False)
_originals: list[tuple[type, str, Callable]] = []  # of patched methods; empty while the check is not incremental


def incremental_nan_check() -> Callable[[], None]:
    """After each collect, let every trainer of this process look for NaN in the transitions just written, instead of
    in the whole replay buffer.

    A NaN or None that the collector, a hook or any method of the buffer writes raises the same MalformedBufferError
    after the same collect. Only an assignment into a buffer's arrays, such as `buffer.rew[3] = value`, is not noticed.
    The first check of a buffer still reads all of it, as does the check after its arrays were replaced. Where the
    results could differ, namely for HER buffers, buffers with sample_avail and stacked frames, and buffers of your own
    class that override a method of tianshou's, every check reads everything, and a warning says so once.

    Outside of a trainer, `buffer.hasnull()` is unchanged. The check draws no random numbers, so training gives the
    same weights. Tested with tianshou 2.0.0 and 2.0.1.

    Returns:
        A function that restores tianshou's own check. Calling either function twice has no further effect.
    """
    if not _originals:
        written_rows, hasnull = WrittenRows(), ReplayBuffer.hasnull

        def note_rows(add):
            @functools.wraps(add)
            def wrapper(self, *args, **options):
                added = add(self, *args, **options)
                written_rows.note(self, added[0] if isinstance(added, tuple) else added)
                return added

            return wrapper

        def note_index(set_array):
            @functools.wraps(set_array)
            def wrapper(self, seq, key, index=None, default_value=None):
                set_array(self, seq, key, index, default_value)
                if index is not None:
                    written_rows.note(self, self._indices[index])

            return wrapper

        def set_collecting(collect):
            @functools.wraps(collect)
            def wrapper(self):
                token = _collecting.set(True)
                try:
                    return collect(self)
                finally:
                    _collecting.reset(token)

            return wrapper

        @functools.wraps(hasnull)
        def incremental_hasnull(self):
            return written_rows.hasnull(self, hasnull) if _collecting.get(False) else hasnull(self)

        patches = {
            (ReplayBuffer, "add"): note_rows,
            (ReplayBufferManager, "add"): note_rows,
            (ReplayBuffer, "update"): note_rows,
            (ReplayBuffer, "set_array_at_key"): note_index,
            (ReplayBuffer, "hasnull"): lambda _: incremental_hasnull,
            (OnlineTrainer, "_collect_training_data"): set_collecting,
        }
        if missing := [f"{cls.__name__}.{name}" for cls, name in patches if name not in vars(cls)]:
            raise ImportError(f"this tianshou has no {', '.join(missing)}; install 2.0.0 or 2.0.1, which have it")
        for (cls, name), wrap in patches.items():
            _originals.append((cls, name, vars(cls)[name]))
            setattr(cls, name, wrap(vars(cls)[name]))
    return _undo


def _undo() -> None:
    while _originals:
        setattr(*_originals.pop())
