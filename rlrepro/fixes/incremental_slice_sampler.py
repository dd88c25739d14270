"""IncrementalSliceSampler: torchrl's SliceSampler without the scan of every stored row."""

import threading

import numpy as np
import torch
from tensordict import is_tensor_collection
from torchrl.data.replay_buffers.samplers import SliceSampler
from torchrl.data.replay_buffers.storages import Storage

from rlrepro.fixes.followed_storage import FollowedStorage, closed_index
from rlrepro.fixes.trajectory_boundaries import Boundaries, entry
from rlrepro.fixes.trajectory_index import TrajectoryIndex


class IncrementalSliceSampler(SliceSampler):
    """A drop-in for torchrl's SliceSampler whose `sample` costs the same however much is stored, while training writes.

    `SliceSampler` looks at every stored row for each sample or, with `cache_values=True`, for each sample after a
    write. This one keeps an index of the trajectories (16 to 20 bytes for each of at least the slices' length), reads
    the rows written since the last sample, and draws from it: uniformly a trajectory, then uniformly a start, with
    replacement, as torchrl does. The arguments, the samples and the information beside them are SliceSampler's own.

        sampler = IncrementalSliceSampler(slice_len=4, traj_key="episode")
        buffer = ReplayBuffer(storage=LazyTensorStorage(600_000_000), sampler=sampler, batch_size=1024)

    All rows are read once, at the first sample, and again after what is no write at the head of the ring: `write_at`, a
    storage that was emptied or loaded, rows written by another process, and, from torchrl 0.14 on, what is written to
    the storage directly (older ones do not tell). That one sample takes about as long as one of SliceSampler's.

    Where torchrl joins the newest row to the oldest one, in a full storage that does not know where it was written
    last (LazyStackStorage), this sampler knows, and cuts a trajectory there.

    `compile`, `use_gpu` and `fragmented` are not supported and raise NotImplementedError. Other arguments, and what
    they raise, are as in SliceSampler; `cache_values` changes nothing. `sample` raises RuntimeError for an empty
    buffer, for keys that are not there or of another shape than the storage, and when no trajectory is long enough.
    """

    def __init__(self, *, num_slices: int | None = None, slice_len: int | None = None, **options):
        for name in ("compile", "use_gpu", "fragmented"):
            if options.get(name):
                raise NotImplementedError(
                    f"{name}={options[name]!r} is not supported; leave it out, or use SliceSampler"
                )
        super().__init__(num_slices=num_slices, slice_len=slice_len, **options)
        if not self._cache:  # there are no boundaries given as an argument, so nothing to be kept
            self.cache_values = False
        self._start()

    def _start(self):
        self._lock, self._followed, self._given = threading.RLock(), None, {}

    def sample(self, storage: Storage, batch_size: int) -> tuple[tuple[torch.Tensor, ...], dict]:
        """Indices of `batch_size` rows, a tensor for each dimension of the storage, and SliceSampler's information."""
        rows = batch_size * (getattr(self, "_batch_size_multiplier", None) or 1)
        slice_len, num_slices = self._adjusted_batch_size(rows)
        with self._lock:
            index = self._index(storage, slice_len)
            if not len(index):
                return self._refused(storage, batch_size)
            device = getattr(self._rng, "device", None)
            device = getattr(self._rng, "device", None)
            which = torch.randint(len(index), (num_slices,), generator=self._rng, device=device)
            times, columns, lengths = index.at(which.cpu().numpy())
        columns = np.unravel_index(columns, storage.shape[1:]) if storage.ndim > 1 else ()
        device = getattr(storage, "device", None)
        if any(self.span) or not hasattr(self, "_finalize_index") or lengths.min() < slice_len:
            return self._sample_slices(
                torch.from_numpy(lengths).to(device),
                torch.from_numpy(np.stack([times, *columns], 1)).to(device),
                None,
                slice_len,
                num_slices,
                index.capacity,
                torch.arange(num_slices, device=device),
                storage=storage,
            )
        drawn = torch.rand(num_slices, generator=self._rng, device=which.device).cpu().numpy()
        room = lengths - (slice_len - 1)
        starts = times + np.minimum((drawn * room.astype(np.float32)).astype(np.int64), room - 1)
        rows = (starts[:, None] + np.arange(slice_len)) % index.capacity
        cells = np.stack([rows.ravel(), *(column.repeat(slice_len) for column in columns)], 1)
        return self._finalize_index(
            index=torch.from_numpy(cells).to(device),
            num_slices=num_slices,
            seq_length=slice_len,
            target_seq_length=None,
            mask_flat=None,
            storage=_Entries(storage),
        )

    def mark_update(self, index: int | torch.Tensor, *, storage: Storage | None = None) -> None:
        """Take note that these rows of the storage were written; the buffers that it is attached to call this."""
        super().mark_update(index, storage=storage)
        if storage is not None:
            with self._lock:
                self._follow(storage).wrote(index)

    @property
    def index_bytes(self) -> int:
        """Bytes that the index holds."""
        return self._followed.nbytes if self._followed else 0

    def _follow(self, storage) -> FollowedStorage:
        if self._followed is None or not self._followed.is_of(storage):
            self._followed = FollowedStorage(storage)
        return self._followed

    def _index(self, storage, slice_len) -> TrajectoryIndex:
        shortest = slice_len if self.strict_length else 1
        if not len(storage):
            raise RuntimeError("there is nothing to sample: the buffer is empty; extend it first")
        if self._cache:
            if shortest not in self._given:
                self._given = {shortest: closed_index(shortest, storage, *self._get_stop_and_length(storage))}
            return self._given[shortest]
        return self._follow(storage).index(shortest, self._boundaries, self._get_stop_and_length)

    def _boundaries(self, storage) -> Boundaries:
        """Ids or flags, whichever SliceSampler takes first of what is stored."""
        if getattr(self, "_traj_key_auto", False):
            self._resolve_traj_key(storage)
        ids = Boundaries((self.traj_key,), are_ids=True)
        flags = Boundaries(getattr(self, "end_keys", None) or (self.end_key,), are_ids=False)
        for boundaries in (ids, flags) if self._fetch_traj else (flags, ids):
            if boundaries.are_in(storage):
                return boundaries
        if not is_tensor_collection(storage[:1]):
            self._get_stop_and_length(storage)  # raises what torchrl raises
        names = " nor ".join(f"{key!r}" for key in (*ids.keys, *flags.keys) if key is not None)
        raise RuntimeError(f"neither {names} are in the storage; name one that is with traj_key or end_key")

    def _refused(self, storage, batch_size):
        """What torchrl raises where no trajectory is long enough, with what to do."""
        try:
            return super().sample(storage, batch_size)
        except RuntimeError as error:
            raise RuntimeError(
                f"{error} Store longer trajectories, ask for shorter slices, or take strict_length=False."
            ) from error

    def _sampleable_count(self, storage, batch_size) -> int:
        if not len(storage):
            return 0
        slice_len, _ = self._adjusted_batch_size(batch_size)
        with self._lock:
            lengths = self._index(storage, slice_len).lengths
        return int(np.maximum(lengths - slice_len + 1, 1).sum())

    def _empty(self):
        super()._empty()
        self._followed = None

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_lock", "_followed", "_given")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._start()


class _Entries:
    """A storage, or rows of it, of which those entries are fetched that are asked for."""

    def __init__(self, storage, index=None):
        self._storage, self._index = storage, index

    def __getitem__(self, index):
        return _Entries(self._storage, index)

    def get(self, key, default=None):
        found = entry(self._storage, key, self._index)
        return default if found is None else found
