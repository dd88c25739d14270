"""The chapter's measurements, one function per section: each runs workloads under releases and records the results."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from rlrepro.cases.common.bench import Bench
from rlrepro.cases.common.gail_icm import ALGORITHMS, measure_update
from rlrepro.cases.common.tianshou_ppo import INTERPRETED
from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST, OLDER, workloads
from rlrepro.lab import Comparison, Release, compare, this_machine, timeline

DEFAULT_MAX_BATCHSIZE = 256  # tianshou's
SEARCH_STEP = 16  # transitions: the resolution of the search for the longest rollout
DISTRIBUTIONS = (("categorical", 1), ("independent", 1), ("plain normal", 1), ("plain normal", 3))  # and actions


def release(bench: Bench, version: str) -> Release:
    return bench.release(f"tianshou=={version}")


def start(bench: Bench) -> None:
    """Start the processes of the releases side by side, each with the longest rollout that it will need."""
    os.environ.update(INTERPRETED)
    settings = bench.settings
    longest = max(*settings.rows, settings.card_rows)
    rollouts = {BUGGY: longest, FIXED: settings.long_rows, NEWEST: longest, OLDER: settings.release_rows}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda version: release(bench, version).run(workloads.prepare, rollouts[version]), rollouts))


def opening_scene(bench: Bench, chunked: bool = False) -> dict[str, dict]:
    """What `workloads.fits` returns on a small virtual card, by release; with `chunked`, only BUGGY with
    ChunkedPPOPolicy."""
    settings, outcomes = bench.settings, {}
    setting = {"rows": settings.card_rows, "gib": settings.card_gib, "network": settings.card_network}
    for version in (BUGGY,) if chunked else (BUGGY, FIXED):
        outcome = release(bench, version).run(
            workloads.fits, max_batchsize=settings.max_batchsize, device=bench.device, chunked=chunked, **setting
        )
        bench.add("fits_chunked" if chunked else "fits", outcome["fits"], release=version, **setting)
        outcomes[version] = outcome
    return outcomes


def live_by_line(bench: Bench) -> None:
    settings = bench.settings
    sizes = {"rows": settings.history_rows, "gib": settings.history_gib, "max_batchsize": settings.max_batchsize}
    for version in (BUGGY, FIXED):
        history = release(bench, version).run(workloads.history, **sizes, device=bench.device)
        setting = {"release": version, "events": history["events"], "fits": history["error"] is None, **sizes}
        for line, live in history["live"].items():
            bench.add("live", live.tolist(), line=line, **setting)


def peak_by_rows(bench: Bench) -> None:
    size = bench.settings.max_batchsize
    for version in (BUGGY, FIXED, NEWEST):
        for rows in bench.settings.rows:
            setting = {"rows": rows, "max_batchsize": size, "network": "nature"}
            result = release(bench, version).run(workloads.peak, **setting, device=bench.device)
            bench.add("peak", result["peak_bytes"], release=version, **setting)
        bench.add("host_bytes_per_row", result["host_bytes"] / rows, release=version)


def residual_peaks(bench: Bench) -> None:
    settings = bench.settings
    setting = {
        "rows": settings.residual_rows,
        "max_batchsize": settings.residual_max_batchsize,
        "network": "residual",
    }
    for version in (BUGGY, FIXED):
        result = release(bench, version).run(workloads.peak, **setting, device=bench.device)
        bench.add("peak", result["peak_bytes"], release=version, **setting)


def peak_by_chunk(bench: Bench) -> None:
    for version in (BUGGY, FIXED):
        for size in bench.settings.chunk_sizes:
            setting = {"rows": bench.settings.chunk_rows, "max_batchsize": size}
            result = release(bench, version).run(workloads.peak, **setting, device=bench.device)
            bench.add("peak_by_chunk", result["peak_bytes"], release=version, **setting)


def peak_by_release(bench: Bench) -> None:
    settings = bench.settings
    points = timeline(
        "tianshou",
        settings.releases,
        workloads.peak,
        settings.release_rows,
        settings.max_batchsize,
        device=bench.device,
        running=[release(bench, version) for version in (BUGGY, FIXED, NEWEST, OLDER)],
        at_once=2,
    )
    for point in points:
        peak = point.value["peak_bytes"] if point.value else None
        bench.add("timeline", peak, release=point.version, rows=settings.release_rows, error=point.error)


def largest_rollouts(bench: Bench) -> dict:
    """Find the longest rollout that fits on a small virtual card in the buggy release, and try a much longer one in the
    fixed release. Returns what `workloads.fits` returns for the latter."""
    settings, gib, size = bench.settings, bench.settings.small_card_gib, DEFAULT_MAX_BATCHSIZE
    rows, peak = list(bench.records.series("logp_old.peak", "rows", release=BUGGY, network="nature").items())[-1]
    estimate = int(gib * 2**30 / (peak / rows))
    setting = {"gib": gib, "max_batchsize": size}
    longest = release(bench, BUGGY).run(
        workloads.largest_rollout,
        low=estimate // 2,
        high=estimate * 3 // 2,
        step=SEARCH_STEP,
        device=bench.device,
        **setting,
    )
    bench.add("largest_rollout", longest, release=BUGGY, at_least=False, **setting)
    outcome = release(bench, FIXED).run(workloads.fits, settings.long_rows, device=bench.device, **setting)
    if not outcome["fits"]:
        raise RuntimeError(f"{settings.long_rows} transitions were expected to fit on {gib} GiB: {outcome['error']}")
    bench.add("largest_rollout", settings.long_rows, release=FIXED, at_least=True, **setting)
    host_bytes = bench.records.get("logp_old.host_bytes_per_row", release=FIXED).value
    bench.add("rows_host_memory_allows", int(this_machine().memory_bytes / host_bytes), release=FIXED)
    return outcome


def article_snippet(bench: Bench) -> None:
    for version in (BUGGY, OLDER):
        bench.add("snippet_error", release(bench, version).run(workloads.run_snippet), release=version)


def differences(bench: Bench) -> dict[tuple[str, int], float]:
    """Compare logp_old of the whole rollout with logp_old in chunks. Returns the fraction that is bit-equal, by
    precision and `max_batchsize`."""
    equal_fractions, rows = {}, bench.settings.equality_rows
    for dtype in workloads.precisions(bench.device):
        unchunked = release(bench, BUGGY).run(workloads.logp_old, rows, 64, dtype, bench.device)
        for size in bench.settings.equality_sizes:
            chunked = release(bench, FIXED).run(workloads.logp_old, rows, size, dtype, bench.device)
            difference = float(np.max(np.abs(chunked - unchunked) / np.abs(unchunked)))
            bench.add("difference", difference, dtype=dtype, max_batchsize=size, rows=rows)
            equal_fractions[dtype, size] = float(np.mean(chunked == unchunked))
    return equal_fractions


def training_differences(bench: Bench) -> dict[int, float]:
    """Compare training runs with and without chunks. Returns how far training moved the weights, by `max_batchsize`."""
    distances, updates = {}, bench.settings.training_updates
    for size in bench.settings.equality_sizes:
        unchunked, chunked = (
            release(bench, BUGGY).run(workloads.train, in_chunks, updates, size, bench.seed, bench.device)
            for in_chunks in (False, True)
        )
        setting = {"max_batchsize": size, "updates": updates}
        bench.add("training_difference", workloads.farthest(unchunked["weights"], chunked["weights"])[-1], **setting)
        bench.add("training_same_returns", unchunked["returns"] == chunked["returns"], **setting)
        distances[size] = workloads.farthest(unchunked["weights"], unchunked["weights"][0])[-1]
    return distances


def drift(bench: Bench) -> None:
    """How far the weights of a run are, after each update, from those of the unchanged release with the same seed. The
    runs: the same run again; one with chunks; one with a weight moved to the next float32 before training. `start` is
    the distance from the initial weights."""
    size, updates = min(bench.settings.equality_sizes), bench.settings.drift_updates

    def weights(**changes):
        arguments = {"chunked": False, "seed": bench.seed, "device": bench.device} | changes
        return release(bench, BUGGY).run(workloads.train, updates=updates, max_batchsize=size, **arguments)["weights"]

    reference = weights()
    runs = {
        "start": reference[0],
        "again": weights(),
        "chunks": weights(chunked=True),
        "next float32": weights(nudged=True),
    }
    for run, run_weights in runs.items():
        for update, distance in enumerate(workloads.farthest(reference, run_weights)):
            bench.add("drift", distance, run=run, update=update, max_batchsize=size)


def time_ratio(bench: Bench) -> Comparison:
    settings = bench.settings
    fixed, buggy = (
        partial(
            release(bench, version).run,
            workloads.preprocess_once,
            settings.timing_rows,
            settings.max_batchsize,
            device=bench.device,
        )
        for version in (FIXED, BUGGY)
    )
    times = compare(fixed, buggy, repeats=settings.timing_repeats)
    bench.add_ratio("time_ratio", times, rows=settings.timing_rows)
    return times


def chunk_sizes(bench: Bench) -> dict[int, list[int]]:
    """The sizes of the chunks into which the fixed release splits rollouts of about two chunks, by their length."""
    size = DEFAULT_MAX_BATCHSIZE
    sizes = {rows: release(bench, FIXED).run(workloads.chunk_sizes, rows, size) for rows in (512, 513, 511)}
    bench.add("chunks", sizes[511], release=FIXED, rows=511, max_batchsize=size)
    return sizes


def first_ratios(bench: Bench) -> dict[tuple[str, str, int], dict]:
    """What `workloads.first_ratio` returns, by release, distribution and number of actions."""
    results = {}
    for version in (BUGGY, FIXED, NEWEST):
        for distribution, actions in DISTRIBUTIONS:
            result = release(bench, version).run(workloads.first_ratio, distribution, actions)
            setting = {"release": version, "distribution": distribution, "actions": actions}
            bench.add("first_ratio_error", result["off_by"], error=result["error"], **setting)
            results[version, distribution, actions] = result
    return results


def chunked_first_ratios(bench: Bench) -> dict[int, dict]:
    """The same for ChunkedPPO and a plain Normal, by the number of actions."""
    results = {}
    for actions in (1, 3):
        results[actions] = release(bench, NEWEST).run(workloads.first_ratio, "plain normal", actions, chunked=True)
        bench.add("first_ratio_error_fixed", results[actions]["off_by"], release=NEWEST, actions=actions)
    return results


def gail_and_icm(bench: Bench) -> dict[tuple[str, int], float]:
    """Compare both algorithms with their fixes. Returns how far an update moved the weights, by algorithm and rows."""
    distances = {}
    for name in ALGORITHMS:
        for rows in bench.settings.twin_rows:
            size = bench.settings.max_batchsize
            released, fixed = (
                release(bench, NEWEST).run(measure_update, name, chunked, rows, size, bench.seed, bench.device)
                for chunked in (False, True)
            )
            setting = {"twin": name, "rows": rows, "max_batchsize": size}
            for stage in ("preprocess", "update"):
                for with_fix, result in ((False, released), (True, fixed)):
                    bench.add("twin_peak", result[f"{stage}_peak_bytes"], fixed=with_fix, stage=stage, **setting)
            for quantity in ("rewards", "weights"):
                difference = float(np.abs(released[quantity] - fixed[quantity]).max())
                bench.add("twin_difference", difference, what=quantity, **setting)
            distances[name, rows] = released["moved"]
    return distances
