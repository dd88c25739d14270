"""The chapter's loops, one per section: each runs workloads under the releases and adds their records."""

import itertools
import os
from collections import defaultdict

import numpy as np

from rlrepro.cases.common.bench import Bench, at_once
from rlrepro.cases.slice_sampler import BUGGY, FIXED, ID_BYTES, NEWEST, workloads
from rlrepro.cases.slice_sampler.buffers import check_memory, drop, missing_on_card
from rlrepro.lab import Comparison, Release

SCANNING, CACHED = ["episode", "done"], ["episode cached", "done cached"]
ONLINE = ["episode", "episode cached", "ours"]
WITHOUT_REPLACEMENT = ["without replacement", "ours without replacement"]
ID_PASSES = {BUGGY: 4, NEWEST: 2}  # reads and writes of all ids for one sample
FLAG_PASSES = 4
WRITES_AT_ONCE = 3  # of a release, before the next one's turn
TURNS = 3  # times as many as elsewhere, since releases in separate processes differ most from turn to turn
ENVIRONMENT = {
    "RL_LOGGING_LEVEL": "WARNING",  # torchrl reports each buffer it makes
    "OMP_WAIT_POLICY": "PASSIVE",  # a process that waits must not spin on the cores of another
    "PYTHONWARNINGS": "ignore:Failed to import torchrl C++",  # of old releases; not needed here
}


def start(bench: Bench) -> list[Release]:
    """BUGGY, FIXED and NEWEST, ready to measure. Raises MemoryError if the largest buffer does not fit."""
    check_memory(max(bench.settings.stored + bench.settings.online_stored))
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    releases = _releases(bench)
    at_once(releases, workloads.prepare)
    return releases


def sample_by_stored(bench: Bench) -> None:
    """One sample of each sampler in each release, by what is stored, and in the article's small buffer."""
    for release in _releases(bench):
        for stored, capacity in _cells(bench):
            seconds = _sampling(bench, release, stored, capacity)
            setting = {"release": release.version, "stored": stored, "capacity": capacity}
            _add_times(bench, "sample", seconds, storage="cpu", **setting)
            bench.add("page_faults", release.run(workloads.page_faults, stored, capacity), **setting)
            if release.version == BUGGY:
                _add_ratio(bench, "done_ratio", seconds["episode"], seconds["done"], **setting)
                _add_ratio(bench, "cache_ratio", seconds["episode"], seconds["episode cached"], **setting)
            if release.version == NEWEST:
                _add_ratio(bench, "ours_ratio", seconds["episode"], seconds["ours"], **setting)
                _add_ratio(bench, "floor_ratio", seconds["ours"], seconds["gather"], **setting)
        release.run(drop)


def sample_by_capacity(bench: Bench) -> None:
    """One sample of 0.6.0 at the capacities between the smallest and the largest, with the smallest of `stored`."""
    buggy, stored = _releases(bench)[0], bench.settings.stored[0]
    for capacity in bench.settings.capacities[1:-1]:
        seconds = buggy.run(workloads.sampling, stored, capacity, ["episode"], bench.settings.repeats)
        _add_times(bench, "sample", seconds, storage="cpu", release=BUGGY, stored=stored, capacity=capacity)
    buggy.run(drop)


def sample_on_card(bench: Bench) -> dict[tuple[int, int], int]:
    """The same with the storage on the GPU, and the online loop. Returns the buffers that did not fit, as a dictionary
    from (stored, capacity) to the bytes that were missing."""
    missing = {}
    for stored, capacity in _cells(bench):
        if shortage := missing_on_card(stored, capacity, bench.device):
            missing[stored, capacity] = shortage
            continue
        for release in _releases(bench):
            setting = {"release": release.version, "stored": stored, "capacity": capacity, "storage": "cuda"}
            seconds = _sampling(bench, release, stored, capacity, bench.device)
            _add_times(bench, "sample", seconds, **setting)
            if release.version == NEWEST:
                seconds = release.run(workloads.online, stored, capacity, ONLINE, bench.settings.writes, bench.device)
                _add_times(bench, "online_on_card", seconds, **setting)
            release.run(drop)
    return missing


def bytes_moved(bench: Bench) -> None:
    """Bytes that one sample reads and writes, and its time, by the width of the ids; also what shapes predict, and the
    time that finding the flags takes in any release."""
    buggy, _, newest = _releases(bench)
    stored, capacity = bench.settings.moved_stored, bench.settings.capacity
    for dtype, size in ID_BYTES.items():
        seconds, moved = defaultdict(list), {}
        for _, release in itertools.product(range(TURNS), (buggy, newest)):
            counted = release.run(workloads.moved, stored, capacity, "episode", dtype)
            seconds[release.version] += counted["seconds"]
            moved[release.version] = counted["bytes"]
        for version, samples in seconds.items():
            predicted = stored * (ID_PASSES[version] * size + FLAG_PASSES)
            setting = {"release": version, "dtype": dtype, "stored": stored}
            bench.add("moved", moved[version], **setting)
            bench.add("moved_in", np.median(samples), samples=samples, **setting)
            bench.add("moved_predicted", predicted, **setting)
            bench.add("moved_of_predicted", moved[version] / predicted, **setting)
    seconds = newest.run(workloads.finding_flags, stored, capacity)
    bench.add("flags_in", np.median(seconds), samples=seconds, stored=stored)


def upstream_fixes(bench: Bench) -> None:
    """Whether each release respects `end_key`, and how much faster the later two are. The releases take turns."""
    settings, releases = bench.settings, _releases(bench)
    samples = {release.version: [] for release in releases}
    for _ in range(TURNS * settings.repeats):
        for release in releases:
            seconds = release.run(workloads.sampling, settings.releases_stored, settings.capacity, ["episode"], 1)
            samples[release.version] += seconds["episode"]
    for version in (FIXED, NEWEST):
        setting = {"release": version, "stored": settings.releases_stored}
        _add_ratio(bench, "release_ratio", samples[BUGGY], samples[version], **setting)
    for release in releases:
        bench.add("heeds_end_key", release.run(workloads.heeds_end_key), release=release.version)
        release.run(drop)


def sample_after_writes(bench: Bench) -> None:
    """The newest release and our sampler after each write, by what is stored, and the size of our index. The samplers
    without replacement are measured only with the most stored."""
    settings, newest = bench.settings, _releases(bench)[-1]
    min_stored, max_stored, capacity = settings.online_stored[0], settings.online_stored[-1], settings.capacity
    for stored in settings.online_stored:
        if stored == min_stored:
            seconds = newest.run(workloads.sampling, stored, capacity, ["episode cached", "ours"], settings.repeats)
            _add_ratio(bench, "cached_ratio", seconds["episode cached"], seconds["ours"], stored=stored)
        if stored == max_stored:
            index = newest.run(workloads.index_bytes, stored, capacity)
            bench.add("index_bytes", index["bytes"] / index["trajectories"], stored=stored)
        seconds = newest.run(workloads.online, stored, capacity, ONLINE, settings.writes)
        setting = {"release": NEWEST, "stored": stored, "capacity": capacity}
        _add_times(bench, "online", seconds, **setting)
        for name in ONLINE[:2]:
            _add_ratio(bench, "online_ours_ratio", seconds[name], seconds["ours"], sampler=name, **setting)
        alone = newest.run(workloads.online, stored, capacity, ["ours"], settings.writes)  # as in a training run
        _add_times(bench, "online_alone", alone, **setting)
    samples = {name: [] for name in WITHOUT_REPLACEMENT}  # in turns of several writes: full reads slow the next write
    for _, (name, seconds) in itertools.product(range(TURNS), samples.items()):
        seconds += newest.run(workloads.online, max_stored, capacity, [name], settings.writes)[name]
    _add_times(bench, "online_alone", samples, **setting)
    _add_ratio(bench, "online_ours_ratio", *samples.values(), sampler=WITHOUT_REPLACEMENT[0], **setting)
    newest.run(drop)
    alone = bench.records.series("slice_sampler.online_alone", "stored", sampler="ours")
    bench.add("online_growth", alone[max_stored] / alone[min_stored], stored=max_stored, over=min_stored)


def both_loops_by_release(bench: Bench) -> dict[str, str]:
    """A buffer that does not change, and the online loop, in each release. The releases take turns, so that changes in
    the machine's speed favour none. Returns the errors by release."""
    settings, samples, errors = bench.settings, defaultdict(list), {}
    stored = settings.timeline_stored
    for _ in range(settings.repeats):
        for version in (version for version in settings.timeline if version not in errors):
            try:
                release = bench.release(f"torchrl=={version}")
                loops = release.run(workloads.both_loops, stored, 2 * stored, WRITES_AT_ONCE)
            except Exception as error:  # of any kind: the other releases still run
                errors[version] = f"{type(error).__name__}: {error}"
                continue
            for key, seconds in loops.items():
                samples[version, *key] += seconds
    for (version, loop, name), seconds in samples.items():
        setting = {"release": version, "loop": loop, "sampler": name, "stored": stored}
        bench.add("timeline", np.median(seconds), samples=seconds, **setting)
    return errors


def _releases(bench) -> list[Release]:
    return [bench.release(f"torchrl=={version}") for version in (BUGGY, FIXED, NEWEST)]


def _cells(bench) -> list[tuple[int, int]]:
    """(stored, capacity): the first of `stored` in the smallest buffer, then all of them in the largest."""
    settings = bench.settings
    return [(settings.stored[0], settings.capacities[0]), *((stored, settings.capacity) for stored in settings.stored)]


def _sampling(bench, release, stored, capacity, device="cpu") -> dict[str, list[float]]:
    """Seconds of all samplers. Those of about the same speed take turns."""
    fast = [*CACHED, "ours", "gather"] if release.version == NEWEST else CACHED
    seconds = {}
    for names in (SCANNING, fast):
        seconds |= release.run(workloads.sampling, stored, capacity, names, bench.settings.repeats, device)
    return seconds


def _add_times(bench, name: str, seconds: dict[str, list[float]], **setting) -> None:
    """Add the median for each sampler."""
    for sampler, samples in seconds.items():
        bench.add(name, np.median(samples), samples=samples, sampler=sampler, **setting)


def _add_ratio(bench, name: str, slow: list[float], fast: list[float], **setting) -> None:
    """Add the median of the ratios of `slow` to `fast`, turn by turn."""
    bench.add_ratio(name, Comparison(tuple(slow), tuple(fast)), **setting)
