"""IncrementalSliceSampler: torchrl's SliceSampler without the scan of every stored transition."""

import threading
from functools import wraps
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torchrl._utils import _replace_last

from .boundaries import Boundaries, entry
from .torchrl_compat import (
    SliceSampler,
    Storage,
    batch_multiplier,
    builds_index,
    cells_in_use,
    end_keys_of,
    pads_output,
    resolve_traj_key,
)
from .tracked_storage import TrackedStorage, closed_index
from .trajectory_index import TrajectoryIndex

NOT_SUPPORTED = ("compile", "use_gpu", "fragmented")


class IncrementalSliceSampler(SliceSampler):
    """A drop-in replacement for torchrl's SliceSampler whose `sample` and `can_sample` cost the same however much is
    stored, while training writes in the same process.

    `SliceSampler` reads every stored transition for each sample or, with `cache_values=True`, for each sample after a
    write. This sampler keeps an index of the trajectories (about 20 bytes for each that is long enough) and reads only
    the transitions written since the last sample. It draws a trajectory uniformly, then a start uniformly, with
    replacement, as torchrl does. Arguments, samples and the information returned with them are SliceSampler's own. With
    `pad_output=True`, a sample takes time proportional to the number of trajectories, since torchrl pads by the
    shortest of all. For example::

        sampler = IncrementalSliceSampler(slice_len=4, traj_key="episode")
        buffer = ReplayBuffer(storage=LazyTensorStorage(600_000_000), sampler=sampler, batch_size=1024)

    All transitions are read once, at the first sample, and again after any change other than a write at the head of
    the ring: the buffer's `write_at`, `set_at_` and `update_if_present` (for any entry), a storage that was emptied,
    loaded or replaced, and writes by another process. The next sample then takes as long as one of SliceSampler's. Two
    kinds of change go unnoticed: changes to the stored tensors themselves (`buffer[:]["done"].copy_(...)`) and, before
    torchrl 0.14, writes to the storage that bypass the buffer. Call `forget()` after these.

    In a full LazyStackStorage, torchrl joins the newest transition to the oldest. This sampler gets that position
    from the writer, and ends the trajectory there.

    `compile`, `use_gpu` and `fragmented` are not supported and raise NotImplementedError. Other arguments, and the
    errors they raise, are as in SliceSampler; `cache_values` has no effect. `sample` raises RuntimeError if the buffer
    is empty, if entries are missing or their shape differs from the storage's, or if no trajectory is long enough.

    Tested with torchrl 0.6.0, 0.7.2, 0.10.1, 0.12.0, 0.13.3, 0.14.1.
    """

    @wraps(SliceSampler.__init__)
    def __init__(self, *args, **options):
        for name in NOT_SUPPORTED:
            if options.get(name):
                raise NotImplementedError(f"{name}={options[name]!r} is not supported; use SliceSampler for it")
        super().__init__(*args, **options)
        names = ("traj_key", "end_key", "end_keys")
        self._requires_traj_key = [name for name in names if options.get(name) is not None] == ["traj_key"]
        if not self._cache:  # no boundaries were passed as an argument, so there is nothing to cache
            self.cache_values = False
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Read all transitions again at the next sample."""
        self._tracked, self._given = WeakKeyDictionary(), {}  # by storage; by the shortest length

    @property
    def index_bytes(self) -> int:
        """Bytes that the index holds."""
        return sum(tracked.nbytes for tracked in self._tracked.values())

    @torch.compiler.disable
    def sample(self, storage: Storage, batch_size: int) -> tuple[tuple[torch.Tensor, ...], dict]:
        """Indices of `batch_size` transitions, one tensor per dimension of the storage, and SliceSampler's info."""
        batch_size *= batch_multiplier(self)
        slice_len, num_slices = self._adjusted_batch_size(batch_size)
        with self._lock:
            index = self._index(storage, slice_len if self.strict_length else 1)
            if not len(index):
                raise RuntimeError(self._too_short(storage, slice_len))
            trajectories = self._draw(len(index), num_slices)
            num_slices = len(trajectories)
            is_padded = pads_output(self)  # then torchrl pads by the shortest trajectory of all
            times, columns, lengths = index.at(np.arange(len(index)) if is_padded else trajectories)
            columns = np.unravel_index(columns, storage.shape[1:]) if storage.ndim > 1 else ()
            device = getattr(storage, "device", None)
            has_short = not self.strict_length and (lengths < slice_len).any()
            if any(self.span) or is_padded or has_short or not builds_index(self):
                return self._sample_slices(
                    torch.from_numpy(lengths).to(device),
                    torch.from_numpy(np.stack([times, *columns], 1)).to(device),
                    None,
                    slice_len,
                    num_slices,
                    cells_in_use(storage),  # padding may start after the last of them, and wraps around
                    torch.from_numpy(trajectories if is_padded else np.arange(num_slices)).to(device),
                    storage=storage,
                )
            positions = lengths - (slice_len - 1)  # where a slice can start
            starts = times + self._offsets(positions)
        cells = (starts[:, None] + np.arange(slice_len)).ravel() % index.capacity
        coordinates = cells, *(column.repeat(slice_len) for column in columns)
        indices = tuple(torch.from_numpy(coordinate).to(device) for coordinate in coordinates)
        entries = _Entries(storage, indices)
        info = self._flags(entries, slice(slice_len - 1, None, slice_len))
        self._maybe_emit_init_marker(info, entries, num_slices, slice_len, None)
        return indices, info

    def _flags(self, entries, last_steps: slice | torch.Tensor) -> dict:
        """What SliceSampler returns with the transitions of a sample if these are the last steps of its slices."""
        if self.truncated_key is None:
            return {}
        truncated = torch.zeros(len(entries.index[0]), 1, dtype=torch.bool, device=entries.index[0].device)
        truncated[last_steps] = True
        done_key, terminated_key = (_replace_last(self.truncated_key, name) for name in ("done", "terminated"))
        terminated = entries.get(terminated_key, torch.zeros_like(truncated))
        done = entries.get(done_key, truncated) | truncated
        return {self.truncated_key: truncated, done_key: done, terminated_key: terminated}

    def _draw(self, count: int, num_slices: int) -> np.ndarray:
        """Which of `count` trajectories to take slices from."""
        return self._random(torch.randint, count, (num_slices,))

    def _offsets(self, positions: np.ndarray) -> np.ndarray:
        """Where each slice starts in its trajectory, which has this many possible positions."""
        fractions = self._random(torch.rand, len(positions))
        return np.minimum((fractions * positions.astype(np.float32)).astype(np.int64), positions - 1)

    def _random(self, draw, *args) -> np.ndarray:
        """Random numbers from the buffer's generator, or from torch's."""
        return draw(*args, generator=self._rng, device=getattr(self._rng, "device", None)).numpy(force=True)

    @torch.compiler.disable
    def mark_update(self, index: int | torch.Tensor, *, storage: Storage | None = None) -> None:
        """Note that these transitions of the storage were written; the buffers that it is attached to call this."""
        super().mark_update(index, storage=storage)
        if storage is not None:
            with self._lock:
                self._track(storage).note_write(index, storage)

    def _track(self, storage) -> TrackedStorage:
        return self._tracked.get(storage) or self._tracked.setdefault(storage, TrackedStorage())

    def _index(self, storage, shortest) -> TrajectoryIndex:
        if self._cache:
            cells_in_use(storage)  # an error if there are none
            if shortest not in self._given:
                self._given = {shortest: closed_index(shortest, storage, *self._get_stop_and_length(storage))}
            return self._given[shortest]
        keys = self.traj_key, end_keys_of(self)
        return self._track(storage).index(storage, shortest, keys, self._boundaries, self._get_stop_and_length)

    def _boundaries(self, storage) -> Boundaries:
        """The ids or flags in the storage that SliceSampler would use."""
        resolve_traj_key(self, storage)
        flags = Boundaries(end_keys_of(self), are_ids=False)
        names = [self.traj_key] if self.traj_key is not None else [("collector", "traj_ids"), "episode"]
        ids = [Boundaries((name,), are_ids=True) for name in names]
        orders = {True: (*ids, flags), False: (flags, *ids)}
        for boundaries in ids if self._requires_traj_key else orders[self._fetch_traj]:
            if boundaries.are_in(storage):
                return boundaries
        if not hasattr(storage[:1], "get"):
            self._get_stop_and_length(storage)  # raises what torchrl raises
        end_keys = () if self._requires_traj_key else flags.keys
        keys = [key for key in (self.traj_key, *end_keys) if key is not None]
        if not keys:
            raise RuntimeError(
                "`ends` and `trajectories` are no longer valid after a write or in a copy; pass traj_key or end_key"
            )
        names = ", ".join(map(repr, keys))
        raise RuntimeError(f"none of {names} is in the storage; choose an entry that is, with traj_key or end_key")

    def _too_short(self, storage, slice_len) -> str:
        lengths = self._index(storage, 1).lengths
        return (
            "Did not find a single trajectory with sufficient length (length range: "
            f"{lengths.min()} - {lengths.max()} / required={slice_len}). Store longer trajectories, ask for shorter "
            "slices, or pass strict_length=False."
        )

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Whether there is a trajectory that is long enough for such a batch."""
        slice_len, _ = self._adjusted_batch_size(batch_size)
        try:
            with self._lock:
                return len(self._index(storage, slice_len if self.strict_length else 1)) > 0
        except (KeyError, RuntimeError):  # empty, or without boundaries
            return False

    def _sampleable_count(self, storage, batch_size) -> int:
        """How many different slices can be drawn; torchrl's ensembles of samplers call this. Takes time proportional
        to the number of trajectories."""
        slice_len, _ = self._adjusted_batch_size(batch_size)
        try:
            with self._lock:
                lengths = self._index(storage, slice_len if self.strict_length else 1).lengths
        except (KeyError, RuntimeError):  # empty, or without boundaries
            return 0
        return int(np.maximum(lengths - slice_len + 1, 1).sum())

    def _empty(self):
        super()._empty()
        self.forget()

    def load_state_dict(self, state_dict: dict) -> None:
        super().load_state_dict(state_dict)
        self.forget()

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_lock", "_tracked", "_given")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self.forget()


class _Entries:
    """The entries of a storage at some transitions, each fetched only if requested."""

    def __init__(self, storage, index):
        self._storage, self.index = storage, index

    def get(self, key, default=None):
        value = entry(self._storage, key, self.index)
        return default if value is None else value
