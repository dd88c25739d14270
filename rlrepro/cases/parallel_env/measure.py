"""What the chapter measures, section by section: each function runs workloads under releases and adds records."""

import os

import numpy as np

from rlrepro.cases.common.bench import Bench, at_once
from rlrepro.cases.parallel_env import NEWEST, SLEEPING, SPINNING, workloads
from rlrepro.lab import Comparison, Release, this_machine

SPREAD = (0.1, 0.9)  # quantiles
ENVIRONMENT = {"RL_LOGGING_LEVEL": "ERROR", "RL_WARNINGS": "0", "PYTHONWARNINGS": "ignore"}


def start(bench: Bench) -> list[Release]:
    """SLEEPING, SPINNING and NEWEST, ready to measure. Adds the number of cores."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    bench.add("cores", this_machine().cores)
    releases = _releases(bench)
    at_once(releases, workloads.step_times, ["theirs"], 1, 0.0, 1, 0.0)
    return releases


def parents(bench: Bench) -> None:
    """Each release: time of a step, and how busy the parent is, by the time of an environment's step. The parent has a
    core to itself, if there are two."""
    for release in _releases(bench):
        for seconds in bench.settings.steps:
            measured = _step_times(bench, release, ["theirs"], _workers(), seconds, blocks=3)
            _add_waits(bench, measured, release=release.version, workers=_workers(), seconds=seconds)


def sleeping(bench: Bench) -> None:
    """The same for ours, which takes turns with torchrl's own in the newest release."""
    newest, workers = _releases(bench)[-1], _workers()
    for seconds in bench.settings.steps:
        measured = _step_times(bench, newest, ["theirs", "ours"], workers, seconds)
        ours = {"ours": measured["ours"]}
        _add_waits(bench, ours, release=newest.version, workers=workers, seconds=seconds)
        _add_ratio(bench, "ours_ratio", measured, "ours", "theirs", workers=workers, seconds=seconds)
    bench.add("wake_up", measured["ours"]["wake_up"], workers=workers)


def crowds(bench: Bench) -> None:
    """The newest release and ours, by the number of environments, until there are more than cores."""
    settings, newest = bench.settings, _releases(bench)[-1]
    for workers in settings.crowds:
        measured = _step_times(bench, newest, ["theirs", "ours"], workers, settings.crowd_step)
        for wait, result in measured.items():
            setting = {"wait": wait, "workers": workers, "seconds": settings.crowd_step}
            _add_median(bench, "crowd_step", result["step"], **setting)
        _add_ratio(bench, "crowd_ratio", measured, "theirs", "ours", workers=workers, seconds=settings.crowd_step)


def side_by_side(bench: Bench) -> None:
    """Training runs at once, each with environments of its own: steps per second of all together."""
    settings, newest = bench.settings, _releases(bench)[-1]
    arguments = settings.run_workers, settings.crowd_step, settings.run_seconds
    for runs in settings.runs:
        totals = newest.run(workloads.side_by_side, runs, ["theirs", "ours"], settings.turns, *arguments)
        for wait, rates in totals.items():
            _add_median(bench, "throughput", rates, wait=wait, runs=runs, workers=settings.run_workers)
        comparison = Comparison(tuple(totals["ours"]), tuple(totals["theirs"]))
        bench.add_ratio("side_by_side_ratio", comparison, runs=runs, workers=settings.run_workers)


def loaded_state(bench: Bench) -> None:
    """How late transitions are after `load_state_dict`, in each release and with ours."""
    for release in _releases(bench):
        for wait in ["theirs", "ours"] if release.version == NEWEST else ["theirs"]:
            bench.add("steps_late", release.run(workloads.steps_late, wait), release=release.version, wait=wait)


def _releases(bench) -> list[Release]:
    return [bench.release(f"torchrl=={version}") for version in (SLEEPING, SPINNING, NEWEST)]


def _workers() -> int:
    return max(1, this_machine().cores - 1)


def _step_times(bench, release, waits, workers, seconds, blocks=None) -> dict:
    settings = bench.settings
    blocks = blocks or settings.blocks
    return release.run(workloads.step_times, waits, workers, seconds, blocks, settings.block_seconds)


def _add_waits(bench, measured: dict, **setting) -> None:
    for wait, result in measured.items():
        _add_median(bench, "step", result["step"], wait=wait, **setting)
        _add_median(bench, "parent_cpu", result["cpu"], wait=wait, **setting)


def _add_median(bench, name: str, values: list[float], **setting) -> None:
    bench.add(name, np.median(values), spread=tuple(np.quantile(values, SPREAD)), samples=values, **setting)


def _add_ratio(bench, name: str, measured: dict, over: str, under: str, **setting) -> None:
    """Add the median of the ratios of blocks that ran back to back."""
    bench.add_ratio(name, Comparison(tuple(measured[over]["step"]), tuple(measured[under]["step"])), **setting)
