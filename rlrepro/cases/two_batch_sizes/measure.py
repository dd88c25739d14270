"""The chapter's measurements, one function per section. Each adds its records to the `Bench` that it is given."""

import os
from functools import partial

import torch
from gymnasium import spaces

from rlrepro.cases.common.bench import Bench, at_once
from rlrepro.cases.common.networks import Actor, Critic, NatureCNN, ResidualCNN
from rlrepro.cases.common.tianshou_ppo import INTERPRETED, is_version_2, visual_networks
from rlrepro.cases.two_batch_sizes import ARTICLE_GIB, BUGGY, NEWEST, workloads
from rlrepro.cases.two_batch_sizes.stages import counted_bytes, plan_over_run
from rlrepro.fit import Plan, plan
from rlrepro.lab import Release, this_machine, timeline
from rlrepro.lab.timeline import TimelinePoint

FRAMES, CHOICE = workloads.RandomFrames.observation_space, workloads.RandomFrames.action_space
COUNTED_ROLLOUT = 40
COUNTED_SIZES = ((8, 8), (16, 8), (8, 16))  # (max_batchsize, batch_size): one changes, the other stays the same
EDGE_CASES = {
    "both divide the rollout": {"rollout": 96},
    "a remainder": {},
    "almost twice the size": {"rollout": 63},
    "max_batchsize=None": {"max_batchsize": None},
    "max_batchsize=0": {"max_batchsize": 0},
    "batch_size=None": {"batch_size": None},
    "batch_size=0": {"batch_size": 0},
    "an empty rollout": {"rollout": 0},
}
CAMERAS = {  # by name: the network, and the shape of its observations
    "Nature, 84×84": (NatureCNN, (4, 84, 84)),
    "residual, 240×320": (partial(ResidualCNN, frames=(3, 240, 320)), (3, 240, 320)),
    "residual ×3, 480×640": (partial(ResidualCNN, frames=(3, 480, 640), width=3), (3, 480, 640)),
}


def release(bench: Bench, version: str) -> Release:
    """tianshou in that version, with half of the cores: BUGGY and NEWEST run side by side."""
    return bench.release(f"tianshou=={version}", OMP_NUM_THREADS=str(max(1, this_machine().cores // 2)))


def in_both(bench: Bench, fn, *args, **kwargs) -> dict:
    """`fn(...)` under BUGGY and NEWEST at once, by version: only for bytes and counts, not for times."""
    releases = {version: release(bench, version) for version in (BUGGY, NEWEST)}
    return dict(zip(releases, at_once(releases.values(), fn, *args, **kwargs), strict=True))


def start_releases(bench: Bench) -> None:
    """Start both processes side by side."""
    os.environ.update(INTERPRETED)
    in_both(bench, is_version_2)


def profile_update(bench: Bench) -> dict[str, dict]:
    """One traced update per release: what `workloads.update` returned, by version."""
    settings = bench.settings
    sizes = dict(zip(("rollout", "max_batchsize", "batch_size"), settings.profile_sizes, strict=True))
    updates = in_both(
        bench, workloads.update, **sizes, gib=None, network=settings.network, device=bench.device, trace=True
    )
    for version, update in updates.items():
        for stage, peak in update["stages"].items():
            bench.add("stage_peak", peak, release=version, stage=stage, network=settings.network, **_setting(**sizes))
    return updates


def count_forwards(bench: Bench) -> dict[tuple, dict[tuple, list[int]]]:
    """The sizes of all forward passes of an update, in order, by (release, max_batchsize, batch_size) and then by
    (network, with gradients or not)."""
    counted = {}
    for max_batchsize, batch_size in COUNTED_SIZES:
        arguments = {"rollout": COUNTED_ROLLOUT, "max_batchsize": max_batchsize, "batch_size": batch_size}
        updates = in_both(bench, workloads.update, **arguments, gib=None, network="nature", device=bench.device)
        for version, update in updates.items():
            passes = {(network, gradients): [] for network in ("critic", "actor") for gradients in (False, True)}
            for stage, network, size, gradients in update["forwards"]:
                if stage != "collect":
                    passes[network, gradients].append(size)
            for (network, gradients), sizes in passes.items():
                setting = {"release": version, "network": network, "gradients": gradients, **_setting(**arguments)}
                bench.add("forwards", len(sizes), **setting)
                bench.add("largest_forward", max(sizes), **setting)
            counted[version, max_batchsize, batch_size] = passes
    return counted


def which_sizes_fit(bench: Bench) -> None:
    """An update for each pair of sizes, in both releases, on a virtual card too small for the whole rollout."""
    settings = bench.settings
    for max_batchsize in settings.max_batchsizes:
        for batch_size in settings.batch_sizes:
            sizes = {"rollout": settings.rollout, "max_batchsize": max_batchsize, "batch_size": batch_size}
            card = {"network": settings.network, "gib": settings.gib}
            for version, update in in_both(bench, workloads.update, **sizes, **card, device=bench.device).items():
                setting = {"release": version, **_setting(**sizes), **card, "failed": update["failed"]}
                bench.add("fits", update["error"] is None, **setting)


def edge_cases(bench: Bench) -> dict[tuple[str, str], dict]:
    """What `workloads.edge_case` returned, by (name of the case, release)."""
    results = {}
    for name, changes in EDGE_CASES.items():
        sizes = {"rollout": 100, "max_batchsize": 32, "batch_size": 32} | changes
        for version, result in in_both(bench, workloads.edge_case, **sizes).items():
            bench.add("edge_case", result["error"], release=version, **_setting(**sizes))
            if result["before"] and sizes["max_batchsize"]:
                bench.add("largest_chunk", max(result["before"]), release=version, **_setting(**sizes))
            results[name, version] = result
    return results


def collecting_by_release(bench: Bench) -> None:
    """One step of each release's Collector, and one of the newest under torch.no_grad."""
    step = partial(workloads.collecting, bench.settings.envs, bench.settings.network, bench.device)
    running = [release(bench, BUGGY), release(bench, NEWEST)]
    points = timeline("tianshou", bench.settings.collect_releases, step, running=running, at_once=2)
    fixed = TimelinePoint(NEWEST, release(bench, NEWEST).run(step, no_grad=True))
    for point, no_grad in (*((point, False) for point in points), (fixed, True)):
        setting = {"release": point.version, "network": bench.settings.network, "envs": bench.settings.envs}
        gradients = point.value["with_gradients"]
        bench.add("collecting", point.value["peak_bytes"], no_grad=no_grad, with_gradients=gradients, **setting)


def plan_of_grid(bench: Bench) -> Plan:
    """A plan for the networks, rollout and device of `which_sizes_fit`. On a CPU, where no virtual card counts margins,
    it has none."""
    device = bench.device.partition(":")[0]
    networks = visual_networks(bench.settings.network, device="meta" if device == "cpu" else "cpu")
    return plan(*networks, FRAMES, CHOICE, rollout=bench.settings.rollout, envs=workloads.ENVS, device=device)


def plans_that_agree(bench: Bench, planned: Plan) -> None:
    """Count the updates of NEWEST in `which_sizes_fit` for which the plan is right about whether they fit."""
    updates = bench.records.all("two_batch_sizes.fits", release=NEWEST)
    agreements = []
    for record in updates:
        sizes = {name: record.setting[name] for name in ("max_batchsize", "batch_size")}
        needed = counted_bytes(planned.at(**sizes), bench.device)
        agreements.append((max(needed.values()) <= bench.settings.gib * 2**30) == record.value)
    bench.add("plans_that_agree", sum(agreements), cells=len(updates))


def plans_over_runs(bench: Bench, planned: Plan) -> None:
    """The planned bytes of each stage over its peak in a run of NEWEST, at several sizes."""
    for sizes in bench.settings.planned_sizes:
        arguments = dict(zip(("rollout", "max_batchsize", "batch_size"), sizes, strict=True))
        network = bench.settings.network
        update = release(bench, NEWEST).run(
            workloads.update, **arguments, gib=None, network=network, device=bench.device
        )
        for stage, ratio in plan_over_run(planned.at(**arguments), update["stages"], bench.device).items():
            bench.add("plan_over_run", ratio, stage=stage, network=network, **_setting(**arguments))


def largest_batches(bench: Bench, rollout: int = 4096) -> None:
    """The largest minibatch that fits on the article's GPU, for several networks and cameras. Nothing is run."""
    for name in bench.settings.cameras:
        network, shape = CAMERAS[name]
        with torch.device("meta"):
            actor, critic = Actor(network(6)), Critic(network(1))
        camera = spaces.Box(0, 255, shape, FRAMES.dtype)
        largest = plan(actor, critic, camera, CHOICE, rollout=rollout).largest_batch_size(ARTICLE_GIB)
        bench.add("largest_batch", largest, network=name, gib=ARTICLE_GIB, at_least=largest == rollout)


def _setting(rollout: int, max_batchsize, batch_size) -> dict:
    """These sizes as the keys of a record's setting."""
    return {"rows": rollout, "max_batchsize": max_batchsize, "batch_size": batch_size}
