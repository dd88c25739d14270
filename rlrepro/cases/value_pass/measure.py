"""What the chapter measures, one function per section: each runs workloads in RLlib's process and records the results.

Where RLlib is missing, `start` records the reason, and the other functions return a note.
"""

from importlib import metadata

from rlrepro.cases.common.bench import Bench
from rlrepro.cases.value_pass import WAYS, old_stack, workloads
from rlrepro.cases.value_pass.availability import needs_rllib
from rlrepro.lab import Release
from rlrepro.lab.releases import Source

LIVE_ROWS_INDEX = -2  # of the settings' rows: the train batch whose stages are measured


def rllib(bench: Bench) -> Release:
    return bench.release(f"ray=={metadata.version('ray')}")


def start(bench: Bench) -> None:
    """Start RLlib's process, and record why it can't import RLlib, or None."""
    try:
        missing = rllib(bench).run(workloads.missing)
    except metadata.PackageNotFoundError:
        missing = "no package 'ray'"
    bench.add("missing", missing)


@needs_rllib
def source(bench: Bench, target: str) -> Source:
    return rllib(bench).source(target)


@needs_rllib
def opening_scene(bench: Bench, way: str) -> dict:
    """What `workloads.fits` returns for one update on a small virtual card."""
    settings = bench.settings
    setting = {"way": way, "rows": settings.card_rows, "minibatch": settings.minibatch, "gib": settings.card_gib}
    outcome = rllib(bench).run(workloads.fits, "nature", **setting, device=bench.device)
    bench.add("fits", outcome["fits"], **setting)
    return outcome


@needs_rllib
def peak_by_rows(bench: Bench) -> None:
    for rows in bench.settings.rows:
        for way in ("released", "no_grad", "chunked"):
            _value_pass(bench, way=way, rows=rows, network="nature")


@needs_rllib
def update_peak_by_minibatch(bench: Bench) -> None:
    settings = bench.settings
    for way in WAYS:
        for minibatch in settings.minibatches:
            setting = {"way": way, "rows": settings.update_rows, "minibatch": minibatch, "network": "nature"}
            bench.add("update_peak", rllib(bench).run(workloads.update_peak, **setting, device=bench.device), **setting)


@needs_rllib
def live_by_stage(bench: Bench) -> None:
    settings = bench.settings
    for way in WAYS:
        setting = {"way": way, "rows": settings.rows[LIVE_ROWS_INDEX], "minibatch": settings.minibatch}
        measured = rllib(bench).run(workloads.live_by_stage, "nature", **setting, device=bench.device)
        for stage, live in measured["live"].items():
            bench.add("live", live, stage=stage, **setting)
        bench.add("share_held", measured["share_held"], **setting)


@needs_rllib
def peak_by_modules(bench: Bench) -> None:
    for modules in bench.settings.modules:
        for way in WAYS:
            _value_pass(bench, way=way, rows=bench.settings.modules_rows, network="nature", modules=modules)


@needs_rllib
def the_thread(bench: Bench) -> None:
    """A whole update at the sizes of ray-project/ray#58679, in both APIs and with our learner."""
    settings = bench.settings
    sizes = {"rows": settings.thread_rows, "minibatch": settings.thread_minibatch}
    for way in ("old stack", *WAYS):
        if way == "old stack":
            peak = rllib(bench).run(old_stack.update_peak, **sizes, device=bench.device)
        else:
            peak = rllib(bench).run(workloads.update_peak, "recurrent", **sizes, way=way, device=bench.device)
        bench.add("update_peak", peak, way=way, network="recurrent", **sizes)


@needs_rllib
def differences(bench: Bench) -> None:
    """How far our advantages and value targets are from RLlib's, relative to the largest of them."""
    rows = bench.settings.equality_rows
    released = rllib(bench).run(workloads.advantages, "nature", rows, rows, "released", bench.device)
    for size in bench.settings.equality_sizes:
        way = "no_grad" if size is None else "chunked"
        ours = rllib(bench).run(workloads.advantages, "nature", rows, size or rows, way, bench.device)
        for column, expected in released.items():
            difference = abs(ours[column] - expected).max() / abs(expected).max()
            bench.add("difference", difference, way=way, rows=rows, size=size, what=column)


@needs_rllib
def training_difference(bench: Bench) -> None:
    settings = bench.settings
    sizes = settings.equality_rows, settings.minibatch
    (before, released), (_, ours) = (
        rllib(bench).run(workloads.weights_after, "nature", *sizes, way, settings.training_updates, bench.device)
        for way in WAYS
    )
    setting = {"minibatch": settings.minibatch, "updates": settings.training_updates}
    bench.add("training_difference", abs(ours - released).max(), moved=float(abs(released - before).max()), **setting)


@needs_rllib
def time_ratio(bench: Bench) -> None:
    settings = bench.settings
    setting = {"rows": settings.timing_rows, "minibatch": settings.minibatch, "network": "nature"}
    comparison = rllib(bench).run(workloads.time_ratio, **setting, repeats=settings.timing_repeats, device=bench.device)
    bench.add_ratio("time_ratio", comparison, **setting)


def _value_pass(bench: Bench, modules: int = 1, **setting) -> None:
    setting |= {"minibatch": bench.settings.minibatch, "modules": modules}
    measured = rllib(bench).run(workloads.value_pass, **setting, device=bench.device)
    for name in ("peak", "held", "largest_call", "with_gradients"):
        bench.add(name, measured[name], **setting)
    bench.add("batch", measured["batch"], rows=setting["rows"], network=setting["network"])
