"""A model of PyTorch's caching allocator for CUDA: what it reserves on the GPU for given allocations and frees.

It follows c10/cuda/CUDACachingAllocator.cpp with default settings, on one stream. Only addresses differ: here, a new
segment always lies above all earlier ones. Addresses matter only when two free blocks have the same size.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

MIB = 2**20
UNIT = 512  # requests are rounded up to a multiple of this
SMALL = MIB  # the largest request that the small pool serves
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
PACKED = 10 * MIB  # smaller requests of the large pool share a segment
MAX_BYTES = 2**40  # size that a GPU without a limit is assumed to have


@dataclass(eq=False, slots=True)
class Block:
    """A part of a segment. `before` and `after` are its neighbors there."""

    pool: _Pool
    address: int
    size: int
    is_free: bool = True
    is_mapped: bool = True  # only part of an expandable segment is backed by memory
    before: Block | None = None
    after: Block | None = None

    @property
    def is_whole_segment(self) -> bool:
        return self.before is None and self.after is None

    def cut(self, size: int) -> Block:
        """Shorten the block to `size`, and return the remainder as the block after it."""
        remainder = Block(self.pool, self.address + size, self.size - size, True, self.is_mapped, self, self.after)
        if self.after:
            self.after.before = remainder
        self.size, self.after = size, remainder
        return remainder


@dataclass(eq=False)
class _Pool:
    segment: int  # bytes of a segment that requests share, and of a page of an expandable one
    free: list[tuple[int, int, Block]] = field(default_factory=list)  # sorted by size, then address
    unmapped: list[tuple[int, Block]] = field(default_factory=list)  # sorted by address

    def insert(self, block: Block) -> None:
        if block.is_mapped:
            insort(self.free, (block.size, block.address, block), key=lambda entry: entry[:2])
        else:
            insort(self.unmapped, (block.address, block), key=lambda entry: entry[0])

    def remove(self, block: Block) -> None:
        if block.is_mapped:
            del self.free[bisect_left(self.free, (block.size, block.address), key=lambda entry: entry[:2])]
        else:
            del self.unmapped[bisect_left(self.unmapped, block.address, key=lambda entry: entry[0])]


class CachingAllocator:
    """Allocates blocks from segments, as PyTorch does on a GPU of `limit_bytes` (None: as large as needed).

    `reserved_bytes` is the size of all segments, and `allocated_bytes` that of all blocks in use; `peak_reserved_bytes`
    and `peak_allocated_bytes` are their maxima so far. torch.cuda's memory_reserved, memory_allocated and their max_
    versions return these. A block can be larger than requested, since small remainders are not split off.
    """

    def __init__(self, limit_bytes: int | None = None, *, expandable_segments: bool = False):
        self.limit_bytes, self.expandable = limit_bytes, expandable_segments
        self.reserved_bytes = self.allocated_bytes = self.peak_reserved_bytes = self.peak_allocated_bytes = 0
        self._small, self._large = _Pool(SMALL_SEGMENT), _Pool(LARGE_SEGMENT)
        self._next_address = 0

    def allocate(self, size: int) -> Block:
        """A block of at least `size` bytes. Raises MemoryError if it does not fit, even with an empty cache."""
        if size < 1:
            raise ValueError(f"size must be at least 1 byte; found {size}")
        size = _round_up(size, UNIT)
        pool = self._small if size <= SMALL else self._large
        block = self._best_fit(pool, size) or self._new_block(pool, size)
        if block is None:
            self.empty_cache()
            block = self._new_block(pool, size)
        if block is None:
            raise MemoryError(f"{size:,} bytes do not fit: {self.reserved_bytes:,} of {self.limit_bytes:,} reserved")
        remainder = block.size - size
        if remainder >= UNIT if pool is self._small or self.expandable else remainder > SMALL:
            pool.insert(block.cut(size))
        block.is_free = False
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def free(self, block: Block) -> None:
        """Return a block to the cache, merged with its free neighbors."""
        if block.is_free:
            raise ValueError(f"the block at {block.address:,} is free already")
        self.allocated_bytes -= block.size
        block.is_free = True
        self._merge_and_insert(block)

    def empty_cache(self) -> None:
        """Release the unused segments, and the unused pages of expandable segments."""
        for pool in (self._large, self._small):
            for _, _, block in list(pool.free):
                if self.expandable:
                    self._unmap(block)
                elif block.is_whole_segment:
                    pool.remove(block)
                    self.reserved_bytes -= block.size

    def replay(self, events: Iterable[tuple[Hashable, int]]) -> dict[Hashable, Block]:
        """Allocate a block for each (name, bytes), and free it for (name, 0). Returns the remaining blocks."""
        blocks = {}
        for name, size in events:
            if size:
                blocks[name] = self.allocate(size)
            else:
                self.free(blocks.pop(name))
        return blocks

    def _best_fit(self, pool: _Pool, size: int) -> Block | None:
        """The smallest free block that is large enough. One that can grow counts with the size that it can reach."""
        index = bisect_left(pool.free, size, key=lambda entry: entry[0])
        if index == len(pool.free):
            return None
        if self.expandable:
            sizes = (_possible_size(block) for _, _, block in pool.free[index:])
            smallest = next(sizes)
            for possible_size in sizes:
                if possible_size >= smallest:
                    break
                smallest, index = possible_size, index + 1
        return pool.free.pop(index)[2]

    def _new_block(self, pool: _Pool, size: int) -> Block | None:
        """A block of new memory, or None if the GPU has too little."""
        if self.expandable:
            return self._expand(pool, size)
        shared = pool is self._small or size < PACKED
        size = pool.segment if shared else _round_up(size, SMALL_SEGMENT)
        return self._new_segment(pool, size) if self._reserve(size) else None

    def _new_segment(self, pool: _Pool, size: int, is_mapped: bool = True) -> Block:
        address = self._next_address
        self._next_address += _round_up(size, LARGE_SEGMENT)  # so that pages start at multiples of their size
        return Block(pool, address, size, is_mapped=is_mapped)

    def _reserve(self, size: int) -> bool:
        if self.limit_bytes is not None and self.reserved_bytes + size > self.limit_bytes:
            return False
        self.reserved_bytes += size
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return True

    def _expand(self, pool: _Pool, size: int) -> Block | None:
        """A free block at the lowest address where mapping more pages makes room."""
        candidates = (gap.before if gap.before and gap.before.is_free else gap for _, gap in pool.unmapped)
        block = next((candidate for candidate in candidates if _room(candidate, size) >= size), None)
        if block is None:
            card_bytes = self.limit_bytes or MAX_BYTES
            block = self._new_segment(pool, _round_up(card_bytes + card_bytes // 8, pool.segment), is_mapped=False)
            pool.insert(block)
        if not block.is_mapped and not (block := self._map(block, min(block.size, size))):
            return None
        while block.size < size:
            if not (block := self._map(block.after, min(size - block.size, block.after.size))):
                return None
        pool.remove(block)
        return block

    def _map(self, block: Block, size: int) -> Block | None:
        """Back the first `size` bytes, rounded up to whole pages, with memory. None if the GPU has too little."""
        size = _round_up(size, block.pool.segment)
        if not self._reserve(size):
            return None
        block.pool.remove(block)
        if size < block.size:
            block.pool.insert(block.cut(size))
        block.is_mapped = True
        return self._merge_and_insert(block)

    def _unmap(self, block: Block) -> None:
        """Return the whole pages of a free block to the GPU."""
        page_size = block.pool.segment
        start, end = _round_up(block.address, page_size), (block.address + block.size) // page_size * page_size
        if start >= end:
            return
        block.pool.remove(block)
        if start > block.address:
            head, block = block, block.cut(start - block.address)
            block.pool.insert(head)
        if end < block.address + block.size:
            block.pool.insert(block.cut(end - start))
        block.is_mapped = False
        self.reserved_bytes -= end - start
        self._merge_and_insert(block)

    def _merge_and_insert(self, block: Block) -> Block:
        """Merge a block that is in no list with its neighbors of the same kind, and insert it into its list."""
        for neighbor in (block.before, block.after):
            if neighbor and neighbor.is_free and neighbor.is_mapped == block.is_mapped:
                block.pool.remove(neighbor)
                first, last = (neighbor, block) if neighbor is block.before else (block, neighbor)
                block.before, block.after = first.before, last.after
                block.address, block.size = first.address, first.size + last.size
        if block.before:
            block.before.after = block
        if block.after:
            block.after.before = block
        block.pool.insert(block)
        return block


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _possible_size(block: Block) -> int:
    return block.size + (block.after.size if block.after and not block.after.is_mapped else 0)


def _room(block: Block | None, needed: int) -> int:
    """The bytes of this block and the free or unmapped blocks after it, counted until `needed` is reached."""
    room = 0
    while room < needed and block and block.is_free:
        room, block = room + block.size, block.after
    return room
