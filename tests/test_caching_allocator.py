"""The model of CUDA's caching allocator, on traces with known answers."""

import json
from pathlib import Path

import pytest

from rlrepro.fit.caching_allocator import LARGE_SEGMENT, MIB, SMALL_SEGMENT, CachingAllocator

# What PyTorch 2.13.0's own libc10_cuda did with random traces, on a driver that only counts. An event is (name, bytes
# to allocate, or 0 to free; no name empties the cache), then the bytes reserved and allocated, and whether it ran out.
RECORDED = json.loads(Path(__file__).with_name("allocator_traces.json").read_text())


@pytest.mark.parametrize(
    "size, allocated, reserved",
    [
        (1, 512, SMALL_SEGMENT),
        (513, 1024, SMALL_SEGMENT),
        (MIB, MIB, SMALL_SEGMENT),
        (MIB + 1, MIB + 512, LARGE_SEGMENT),
        (10 * MIB - 512, 10 * MIB - 512, LARGE_SEGMENT),
        (10 * MIB, 10 * MIB, 10 * MIB),  # from this size on, a separate segment
        (21 * MIB + 1, 22 * MIB, 22 * MIB),  # the rest is under 1 MiB, so it is not split off
        (84 * MIB, 84 * MIB, 84 * MIB),
    ],
)
def test_one_request(size, allocated, reserved):
    allocator = CachingAllocator()
    allocator.allocate(size)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (allocated, reserved)


def test_the_smallest_free_block_that_is_large_enough_is_used():
    allocator = CachingAllocator()
    live = allocator.replay([("30", 30 * MIB), ("12", 12 * MIB), ("16", 16 * MIB), ("12", 0), ("30", 0), ("16", 0)])
    assert not live and allocator.reserved_bytes == 58 * MIB
    blocks = allocator.replay([("14", 14 * MIB), ("11", 11 * MIB), ("28", 28 * MIB)])
    # 14 of 16 and 28 of 30 leave 2 MiB, which is split off; 11 of 12 leaves 1 MiB, which is not
    assert [block.size // MIB for block in blocks.values()] == [14, 12, 28]
    assert allocator.reserved_bytes == 58 * MIB and allocator.allocated_bytes == 54 * MIB


def test_neighbours_are_joined_and_a_segment_in_use_is_not_released():
    allocator = CachingAllocator()
    allocator.replay([("a", 6 * MIB), ("b", 6 * MIB), ("c", 6 * MIB), ("d", 2 * MIB)])
    assert allocator.reserved_bytes == LARGE_SEGMENT == allocator.allocated_bytes
    allocator = CachingAllocator()
    live = allocator.replay([("a", 6 * MIB), ("b", 6 * MIB), ("c", 6 * MIB), ("a", 0), ("b", 0), ("d", 12 * MIB)])
    assert allocator.reserved_bytes == LARGE_SEGMENT  # d lies where a and b were
    allocator.free(live["d"])
    allocator.empty_cache()
    assert allocator.reserved_bytes == LARGE_SEGMENT  # c keeps it
    allocator.free(live["c"])
    allocator.empty_cache()
    assert allocator.reserved_bytes == 0 and allocator.peak_reserved_bytes == LARGE_SEGMENT
    with pytest.raises(ValueError, match="free already"):
        allocator.free(live["c"])


def one_at_a_time(batches):
    """Updates of growing sizes: in each, two tensors are live at once, and both are freed at its end."""
    for batch in batches:
        yield from ((f"{name} {batch}", batch * size * MIB) for name, size in (("a", 2), ("b", 3)))
        yield from ((f"{name} {batch}", 0) for name in ("a", "b"))


def test_updates_of_changing_sizes_fragment_unless_segments_expand():
    reserved = {}
    for expandable in (False, True):
        allocator = CachingAllocator(expandable_segments=expandable)
        allocator.replay(one_at_a_time((10, 11, 12)))
        assert allocator.peak_allocated_bytes == 60 * MIB
        reserved[expandable] = allocator.reserved_bytes
    # 20 and 30; then 22 in the 30, and 34 (33, in whole 2 MiB); then 24 in the 30, and 36
    assert reserved == {False: (20 + 30 + 34 + 36) * MIB, True: 60 * MIB}


def test_before_it_runs_out_it_releases_the_cache():
    allocator = CachingAllocator(100 * MIB)
    allocator.replay(one_at_a_time((10, 11)))
    assert allocator.reserved_bytes == 84 * MIB
    allocator.allocate(36 * MIB)  # 84 + 36 exceed 100, and no cached segment is large enough
    assert allocator.reserved_bytes == 36 * MIB and allocator.peak_reserved_bytes == 84 * MIB
    with pytest.raises(MemoryError, match="of 104,857,600 reserved"):
        allocator.allocate(70 * MIB)
    with pytest.raises(ValueError, match="at least 1 byte"):
        allocator.allocate(0)


@pytest.mark.parametrize("trace", RECORDED, ids=lambda trace: f"{trace['gib']} GiB, {trace['expandable']}")
def test_it_behaves_as_pytorch_did(trace):
    allocator = CachingAllocator(int(trace["gib"] * 2**30), expandable_segments=trace["expandable"])
    blocks = {}
    for number, (name, size, *expected) in enumerate(trace["events"]):
        failed = False
        try:
            if size > 0:
                blocks[name] = allocator.allocate(size)
            elif name in blocks:
                allocator.free(blocks.pop(name))
            elif name is None:
                allocator.empty_cache()
        except MemoryError:
            failed = True
        assert [allocator.reserved_bytes, allocator.allocated_bytes, failed] == expected, number
