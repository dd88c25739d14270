"""What the chapter measures, one function per section: each runs workloads under releases and records the results."""

from importlib import import_module

import numpy as np

from rlrepro.cases.common.bench import Bench, at_once
from rlrepro.cases.common.tianshou_ppo import INTERPRETED
from rlrepro.cases.nan_scan import (
    FIRST_BAD,
    LAST_GOOD,
    NEWEST,
    REPORTED_COLLECT,
    REPORTED_STORED,
    workloads,
)
from rlrepro.cases.nan_scan.training import COLLECT, PARTS_OF_A_TRANSITION
from rlrepro.lab import Release

FEW_STORED = 1_000  # stored transitions, where the number does not matter
BAD_STEP = 5  # collects before a NaN
SCANS = 17  # of each buffer: now and then one takes several times as long, which must not widen the interval


def release(bench: Bench, version: str) -> Release:
    """tianshou in this version, with one thread: the networks are small, and threads that wait for others spin."""
    return bench.release(f"tianshou=={version}", OMP_NUM_THREADS="1", **INTERPRETED)


def start(bench: Bench) -> list[Release]:
    """LAST_GOOD, FIRST_BAD and NEWEST, ready to measure."""
    releases = [release(bench, version) for version in (LAST_GOOD, FIRST_BAD, NEWEST)]
    at_once(releases, import_module, "tianshou")
    return releases


def slower_and_slower(bench: Bench) -> None:
    """A training run of SAC in the last good release and in the newest, by what its buffer holds at the beginning."""
    for version in (LAST_GOOD, NEWEST):
        for stored in bench.settings.sac_stored:
            run = release(bench, version).run(workloads.train, "SAC", stored, bench.settings.collects)
            _add_step(bench, version, "SAC", stored, run, incremental=False)


def reads_by_release(bench: Bench) -> None:
    """How often a training run reads its whole buffer, by release, by default and with raise_on_nan_in_buffer=False."""
    collects = bench.settings.collects
    for version in (LAST_GOOD, FIRST_BAD, NEWEST):
        for raise_on_nan in (None, False) if version != FIRST_BAD else (None,):
            options = {} if raise_on_nan is None else {"raise_on_nan_in_buffer": raise_on_nan}
            run = release(bench, version).run(workloads.train, "SAC", FEW_STORED, collects, **options)
            setting = {"release": version, "asked": raise_on_nan, "incremental": False, "collects": collects + 1}
            bench.add("whole_reads", run["whole_reads"], **setting)


def scans(bench: Bench) -> None:
    """`hasnull` alone, in the newest release."""
    for kind, sizes in (("vectors", bench.settings.vectors), ("frames", bench.settings.frames)):
        timed = release(bench, NEWEST).run(workloads.scan_seconds, kind, sizes, SCANS)
        for stored, seconds in timed.items():
            bench.add("scan", np.median(seconds), samples=seconds, kind=kind, stored=stored)


def memory(bench: Bench) -> None:
    """Host memory of the check after one collect, without the fix and with it."""
    for stored in bench.settings.memory_frames:
        for incremental in (False, True):
            result = release(bench, NEWEST).run(workloads.check_memory, "frames", stored, incremental)
            bench.add("scan_memory", result["peak"], kind="frames", stored=stored, incremental=incremental)
        bench.add("stored_bytes", result["stored"], kind="frames", stored=stored)


def fixed_training(bench: Bench) -> None:
    """Training runs without the fix and with it: time, and whether the weights are the same."""
    settings = bench.settings
    for algorithm, sizes in (("SAC", settings.sac_stored), ("DQN", settings.dqn_stored)):
        for stored in sizes:
            runs = release(bench, NEWEST).run(
                workloads.train_both, algorithm, stored, settings.collects, settings.repeats
            )
            pairs = list(zip(runs["without"], runs["with"], strict=True))
            speedups = [np.median(slow["steps"]) / np.median(fast["steps"]) for slow, fast in pairs]
            spread = min(speedups), max(speedups)
            setting = {"algorithm": algorithm, "stored": stored}
            bench.add("speedup", np.median(speedups), spread=spread, samples=speedups, **setting)
            difference = max(float(np.abs(slow["weights"] - fast["weights"]).max()) for slow, fast in pairs)
            bench.add("weight_difference", difference, **setting)
            if algorithm == "DQN":
                _add_step(bench, NEWEST, algorithm, stored, pairs[0][0], incremental=False)
            _add_step(bench, NEWEST, algorithm, stored, pairs[0][1], incremental=True)
    fixed = release(bench, NEWEST).run(workloads.train, "SAC", FEW_STORED, settings.collects, incremental=True)
    setting = {"release": NEWEST, "asked": None, "incremental": True, "collects": settings.collects + 1}
    bench.add("whole_reads", fixed["whole_reads"], **setting)


def collect_ratios(bench: Bench) -> dict[str, list[float]]:
    """Collecting one transition and checking it, theirs over ours, with the fullest buffer of vectors."""
    stored = max(bench.settings.vectors)
    ratios = release(bench, NEWEST).run(workloads.collect_ratios, stored, bench.settings.repeats)
    for part, samples in ratios.items():
        spread = min(samples), max(samples)
        bench.add("collect_ratio", np.median(samples), spread=spread, samples=samples, stored=stored, part=part)
    return ratios


def errors(bench: Bench) -> None:
    """What a NaN in each part of a transition raises, without the fix and with it."""
    for part in PARTS_OF_A_TRANSITION:
        for incremental in (False, True):
            run = release(bench, NEWEST).run(
                workloads.train, "SAC", FEW_STORED, 2 * BAD_STEP, incremental, bad=(part, BAD_STEP)
            )
            bench.add("error", run["error"], part=part, incremental=incremental)


def prediction(bench: Bench) -> None:
    """Seconds per environment step that the example of #1285 takes here, by what its buffer holds: the scans measured
    above, extended to its buffer in proportion, and everything else as in a training run with the fix."""
    scan = bench.records.all("nan_scan.scan", kind="frames")[-1]
    rates = np.array(scan.samples) / scan.setting["stored"]  # seconds per stored transition
    other_seconds = bench.records.all("nan_scan.step", algorithm="DQN", incremental=True)[-1].value
    for stored in (REPORTED_STORED // 100, REPORTED_STORED // 10, REPORTED_STORED // 2, REPORTED_STORED):
        seconds = (rates * stored + other_seconds) / REPORTED_COLLECT
        bench.add("predicted", np.median(seconds), samples=seconds, stored=stored)


def _add_step(bench, version, algorithm, stored, run, incremental) -> None:
    setting = {"release": version, "algorithm": algorithm, "stored": stored, "incremental": incremental}
    steps, shares = run["steps"], run["shares"]
    bench.add("step", np.median(steps), samples=steps, environment_steps=COLLECT[algorithm], **setting)
    bench.add("share", np.median(shares), samples=shares, **setting)
