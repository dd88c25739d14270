"""VirtualCard(gib=8): run code as if on a GPU of that size, with or without one."""

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rlrepro.lab.machine import resolve_device
from rlrepro.lab.storage_tracker import StorageCount
from rlrepro.lab.units import format_value

NO_ENGINE = "unable to find an engine"  # in cuDNN's error if it can't allocate any workspace


@contextmanager
def as_out_of_memory() -> Iterator[None]:
    """Raise torch.OutOfMemoryError instead of the RuntimeError that a convolution on a full GPU raises."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        if NO_ENGINE not in str(error):
            raise
        raise torch.OutOfMemoryError(str(error)) from error


class VirtualCard:
    """A context manager that limits memory to `gib` GiB: exceeding it raises torch.OutOfMemoryError. With None, memory
    is only measured.

    On CUDA, the process is limited to that share of the real GPU (`set_per_process_memory_fraction`), and the previous
    limit is restored on exit. On CPU, the storages of live tensors are counted: those that operators create, and
    earlier ones that operators read, each once however many views it has. As on a GPU, an operator that would exceed
    the limit fails before it allocates. Not counted on CPU: temporaries inside operators (under
    `torch.inference_mode`, a composite operator counts as one), memory borrowed from NumPy (which is host memory on a
    real GPU) and the work of other threads. Cards can be nested, and the smallest limit holds; on CUDA, entering an
    inner card resets the peak.

    `live_bytes` and `peak_bytes` remain available after exit, with their values at the exit. Raises ValueError for a
    size that is not positive or, on CUDA, larger than the real GPU, and RuntimeError if the same card is entered twice.
    """

    def __init__(self, gib: float | None = 8.0, *, device: str = "auto"):
        if gib is not None and not 0 < gib < math.inf:
            raise ValueError(f"gib must be positive and finite, or None for no limit; found {gib!r}")
        self.limit_bytes = None if gib is None else int(gib * 2**30)
        self.device = resolve_device(device)
        self._account = _Closed(0, 0)

    def __enter__(self):
        if not isinstance(self._account, _Closed):
            raise RuntimeError("this virtual card has been entered already; create another VirtualCard to nest them")
        account = (_CudaAccount if self.device.type == "cuda" else StorageCount)(self.limit_bytes, self.device)
        account.__enter__()
        self._account = account
        return self

    def __exit__(self, *raised):
        account = self._account
        self._account = _Closed(account.live_bytes, account.peak_bytes)
        account.__exit__(*raised)

    @property
    def live_bytes(self) -> int:
        return self._account.live_bytes

    @property
    def peak_bytes(self) -> int:
        return self._account.peak_bytes

    def restart_peak(self) -> None:
        """Reset `peak_bytes` to the bytes that are live now."""
        self._account.restart_peak()


class _Closed:
    def __init__(self, live_bytes, peak_bytes):
        self.live_bytes, self.peak_bytes = live_bytes, peak_bytes


class _CudaAccount:
    """The caching allocator's statistics, with a limit on this process."""

    def __init__(self, limit_bytes, device):
        total = torch.cuda.get_device_properties(device).total_memory
        limit_bytes = total if limit_bytes is None else limit_bytes
        if limit_bytes > total:
            raise ValueError(
                f"a virtual card of {format_value(limit_bytes, 'B')} does not fit on {device}, which has "
                f"{format_value(total, 'B')}; choose a smaller gib"
            )
        self.device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        self.fraction = limit_bytes / total

    @contextmanager
    def _limit_memory(self):
        previous = torch.cuda.get_per_process_memory_fraction(self.device)
        gc.collect()  # leftovers of earlier calls count against the limit: garbage,
        torch._C._cuda_clearCublasWorkspaces()  # workspaces, which are allocated again on demand,
        torch.cuda.empty_cache()  # and cached blocks
        torch.cuda.reset_peak_memory_stats(self.device)
        torch.cuda.set_per_process_memory_fraction(min(previous, self.fraction), self.device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(previous, self.device)

    def __enter__(self):
        self._manager = self._limit_memory()
        self._manager.__enter__()

    def __exit__(self, *raised):
        return self._manager.__exit__(*raised)

    @property
    def live_bytes(self):
        return torch.cuda.memory_allocated(self.device)

    @property
    def peak_bytes(self):
        return torch.cuda.max_memory_allocated(self.device)

    def restart_peak(self):
        torch.cuda.reset_peak_memory_stats(self.device)
