"""What differs between torchrl's releases, and what is read from its private attributes, in one place.

| torchrl | change that matters here |
|---|---|
| 0.6.0 | `_batch_size_multiplier` does not exist yet |
| 0.7.0 | `_batch_size_multiplier` |
| 0.11.0 | weights of a sample by priority are `priority_weight`, previously `_weight` |
| 0.13.1 | `pad_output`, and a trajectory key that is found automatically (`_traj_key_auto`) |
| 0.14.0 | several `end_keys`; a sampler builds the index of a sample in `_finalize_index`; a storage counts its changes
(`_mutation_revision`), and keeps the cell written last as a number (`_last_cursor_index`, previously `_last_cursor`);
the largest priority is found by `_tree_argmax`, previously in the sampling tree |

Here a storage is a ring of cells: functions return its size, how much of it is in use, and the cell written last.
"""

import numpy as np
import torch
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, SliceSampler
from torchrl.data.replay_buffers.storages import ListStorage, Storage
from torchrl.data.replay_buffers.writers import RoundRobinWriter

for cls, name in (
    (SliceSampler, "_sample_slices"),
    (SliceSampler, "_adjusted_batch_size"),
    (SliceSampler, "_get_stop_and_length"),
    (Storage, "_max_size_along_dim0"),
):
    if not hasattr(cls, name):
        raise ImportError(f"torchrl's {cls.__name__} has no {name}; install a release that is tested")

CHECKED_AT_ONCE = 2**22  # cells; bounds the memory that the check of a large write takes


def dispatch_without_replacement(cls: type, target: type) -> None:
    """Let `cls(replacement=False)` create the target class, as torchrl can from 0.14 on."""
    try:
        from torchrl.data.replay_buffers.samplers.base import _REPLACEMENT_DISPATCH
    except ImportError:
        return
    _REPLACEMENT_DISPATCH[cls] = target


def batch_multiplier(sampler: SliceSampler) -> int:
    """How many transitions one unit of the batch size stands for; 1 before torchrl 0.7."""
    return getattr(sampler, "_batch_size_multiplier", None) or 1


def pads_output(sampler: SliceSampler) -> bool:
    """Whether short slices are padded, as torchrl can from 0.13.1 on."""
    return getattr(sampler, "pad_output", False)


def builds_index(sampler: SliceSampler) -> bool:
    """Whether torchrl turns a list of cells into a sample, as it does from 0.14 on."""
    return hasattr(sampler, "_finalize_index")


def end_keys_of(sampler: SliceSampler) -> tuple:
    """The entries that flag the end of a trajectory; several of them from torchrl 0.14 on."""
    return getattr(sampler, "end_keys", None) or (sampler.end_key,)


def resolve_traj_key(sampler: SliceSampler, storage: Storage) -> None:
    """Let torchrl choose the trajectory key by what is stored, as it does from 0.13.1 on if none was given."""
    if getattr(sampler, "_traj_key_auto", False):
        sampler._resolve_traj_key(storage)


def check_trees() -> None:
    """Raise ImportError if torchrl's C++ extension, which keeps the priorities, can't be loaded."""
    try:
        import torchrl._torchrl  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"torchrl's extension, which keeps the priorities, does not load with torch {torch.__version__}; install "
            "the release of torch that it was built for"
        ) from error


def weight_key(info: dict) -> str:
    """The entry with the weights of a sample that was drawn by priority."""
    return "priority_weight" if "priority_weight" in info else "_weight"


def finds_largest_in_tree(sampler: PrioritizedSampler) -> bool:
    """Whether an update of priorities may search the tree for the largest, as torchrl does before 0.14."""
    return sampler._max_priority_within_buffer and not hasattr(PrioritizedSampler, "_tree_argmax")


def capacity_of(storage: Storage) -> int:
    """Cells of the first dimension."""
    return storage.max_size if storage.ndim == 1 else storage._max_size_along_dim0()


def columns_of(storage: Storage) -> int:
    """Transitions side by side in a cell."""
    return 1 if storage.ndim == 1 else storage.shape[1:].numel()


def cells_in_use(storage: Storage) -> int:
    """How many cells have been written; raises RuntimeError if there are none."""
    stored = len(storage)
    if not stored:
        raise RuntimeError("there is nothing to sample: the buffer is empty; extend it first")
    return stored if storage.ndim == 1 else storage.shape[0]


def revision_of(storage: Storage) -> int | None:
    """A number that grows with each change of the storage; torchrl has it from 0.14 on."""
    revision = getattr(storage, "_mutation_revision", None)
    return None if revision is None else int(revision)


def changes_of_a_write(storage: Storage, cells: int) -> int:
    """How much the revision grows when this many cells are written at once."""
    return cells if isinstance(storage, ListStorage) else 1


def cell_written_last(storage: Storage) -> int | None:
    """The cell at the head of the ring, from the storage or, if it does not know (a list, or after loading), from its
    only writer."""
    names = () if isinstance(storage, ListStorage) else ("_last_cursor_index", "_last_cursor")  # before torchrl 0.14
    cursor = next((getattr(storage, name) for name in names if hasattr(storage, name)), None)
    if cursor is None:
        writers = [getattr(buffer, "_writer", None) for buffer in storage._attached_entities]
        cursors = [writer._cursor for writer in writers if isinstance(writer, RoundRobinWriter)]
        return (cursors[0] - 1) % capacity_of(storage) if len(cursors) == 1 else None
    cells = torch.as_tensor(cursor).reshape(-1)
    return int(cells[-1]) if len(cells) else None


def cells_of(index: int | torch.Tensor, storage: Storage) -> np.ndarray:
    """The cells of the first dimension that were written, each once."""
    return torch.as_tensor(index).numpy(force=True).reshape(-1, storage.ndim)[:: columns_of(storage), 0]


def are_in_order(cells: np.ndarray, capacity: int) -> bool:
    """Whether each cell follows the previous one around the ring."""
    for begin in range(0, len(cells), CHECKED_AT_ONCE):
        chunk, first = cells[begin : begin + CHECKED_AT_ONCE], int(cells[0]) + begin
        expected = np.arange(first, first + len(chunk))
        if first + len(chunk) > capacity:  # otherwise the remainders, which are slow, change nothing
            expected %= capacity
        if np.count_nonzero(chunk != expected):
            return False
    return True
