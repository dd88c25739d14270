"""What the caching allocator reserves on a GPU for planned updates: their allocations and frees, replayed."""

from dataclasses import dataclass, field

from rlrepro.fit.caching_allocator import CachingAllocator
from rlrepro.lab.units import format_value

RESERVE_GIB = 0.5


class AllocationTrace:
    """The allocations and frees of a dry run, in order, as (name, bytes); a free has 0 bytes."""

    def __init__(self):
        self.events, self._sizes, self._count = [], {}, 0

    def changed(self, address: int, delta: int, created: bool) -> None:
        """Record that a storage grew by `delta` bytes, or shrank. This replaces `StorageCount.changed`."""
        name, size = self._sizes.pop(address, (None, 0))
        if size:
            self.free(name)
        if size + delta > 0:
            self._sizes[address] = self.allocate(size + delta), size + delta

    def allocate(self, size: int) -> int:
        """Record that a block of that size was allocated, and return its name."""
        self._count += 1
        self.events.append((self._count, size))
        return self._count

    def free(self, name: int) -> None:
        self.events.append((name, 0))


@dataclass(frozen=True)
class Reserved:
    """Peaks of what the allocator reserves (`reserved_bytes`) and of what is in use (`allocated_bytes`), and what lives
    on the GPU outside torch (`outside_bytes`)."""

    reserved_bytes: int
    allocated_bytes: int
    outside_bytes: int
    expandable_segments: bool
    _events: tuple = field(repr=False)

    @classmethod
    def of(cls, trace: AllocationTrace, *, expandable_segments: bool, reserve_gib: float) -> "Reserved":
        events = tuple(trace.events)
        allocator = CachingAllocator(expandable_segments=expandable_segments)
        allocator.replay(events)
        peaks = allocator.peak_reserved_bytes, allocator.peak_allocated_bytes
        return cls(*peaks, int(reserve_gib * 2**30), expandable_segments, events)

    @property
    def fragmentation(self) -> float:
        """The share of the peak of reserved bytes that exceeds the peak of allocated bytes."""
        return 1 - self.allocated_bytes / self.reserved_bytes

    def fits(self, gib: float) -> bool:
        """Whether a GPU of `gib` GiB is enough. Before it runs out of memory, torch releases cached segments, so less
        than `reserved_bytes` can be enough."""
        try:
            free = max(0, int(gib * 2**30) - self.outside_bytes)
            CachingAllocator(free, expandable_segments=self.expandable_segments).replay(self._events)
        except MemoryError:
            return False
        return True

    def __str__(self) -> str:
        sizes = {"allocated": self.allocated_bytes, "reserved": self.reserved_bytes, "outside": self.outside_bytes}
        return "\n".join(f"{name:12}{format_value(size, 'B'):>12}" for name, size in sizes.items())
