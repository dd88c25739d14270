"""Chapter 4: the effect exists, and disappears with its cause; and the loops measure what the judges need."""

import gc
import os
from dataclasses import asdict
from functools import cache
from itertools import product

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import torch

from rlrepro import fixes
from rlrepro.cases import parallel_training
from rlrepro.cases.common.bench import Bench
from rlrepro.cases.parallel_training import (
    CLAIMS,
    SB3,
    SETTINGS,
    ensemble_timing,
    launch,
    measure,
    plots,
    robots,
    sequential,
    tables,
    training,
)
from rlrepro.fixes import thread_budget
from rlrepro.lab import Release

SIZE = {"net": 512, "steps": 64, "epochs": 5}  # five gradient steps: a single one says little
SMALLEST = {"robot": None, "net": 8, "steps": 4, "epochs": 1}
CORES = thread_budget(1)
several_cores = pytest.mark.skipif(CORES < 2, reason="with one core there is one thread")


def configs(count, **overrides):
    return [{"robot": asdict(build), "seed": k, **SIZE, **overrides} for k, build in enumerate(robots.builds(count))]


@pytest.fixture(scope="module")
def parent():
    with Release(f"stable-baselines3=={SB3}") as release:
        yield release


@pytest.mark.slow
@pytest.mark.timing
@several_cores
def test_threads_slow_runs_down_and_nothing_else_does(parent):
    n_runs = 2 * CORES
    with Release(f"stable-baselines3=={SB3}", environment={"OMP_WAIT_POLICY": "PASSIVE"}) as sleeping:
        variants = {
            "default": lambda: parent.run(launch.pool, configs(n_runs)),
            "one": lambda: parent.run(launch.pool, configs(n_runs, threads=1)),
            "passive": lambda: sleeping.run(launch.pool, configs(n_runs)),
            "alone": lambda: parent.run(launch.pool, configs(1, threads=1)),
        }
        rounds = [{name: run() for name, run in variants.items()} for _ in range(3)]
    default, one_thread, passive, alone = (
        launch.typical([by_variant[name] for by_variant in rounds]) for name in variants
    )
    assert default["torch_threads"] == passive["torch_threads"] == CORES and one_thread["torch_threads"] == 1
    assert default["step"] > 3 * max(one_thread["step"], passive["step"])
    assert default["step_cpu"] > 3 * alone["step_cpu"]  # they don't wait for a lock
    assert one_thread["step_cpu"] < 2 * alone["step_cpu"]
    if "runnable" in default:
        assert default["runnable"] > CORES + 0.5 and one_thread["runnable"] <= n_runs + 0.5


@pytest.mark.slow
@several_cores
def test_a_forked_run_has_torchs_own_threads_unless_it_is_limited(parent):
    default, limited = (parent.run(launch.pool, [SMALLEST | overrides] * 2) for overrides in ({}, {"threads": 1}))
    assert default["torch_threads"] == CORES and limited["torch_threads"] == 1


@pytest.mark.slow
def test_fewer_processes_than_runs_take_them_in_turn(parent):
    measured = parent.run(launch.pool, [SMALLEST] * 3, processes=1)
    assert measured["span"] > 2 * measured["seconds"]  # one after the other, whatever else the machine does


@pytest.mark.slow
@several_cores
def test_the_parent_can_still_fork_after_a_fork_that_waits(parent):
    assert parent.run(launch.fork_after_work)
    assert parent.run(launch.pool, [SMALLEST])["step"] > 0


@pytest.mark.slow
def test_train_many_gives_each_one_thread(parent):
    measured = parent.run(launch.many, [SMALLEST] * 2 * CORES)
    assert measured["torch_threads"] == 1 and measured["work"] > 0 and measured["wall"] > measured["span"]


@pytest.mark.slow
def test_ray_is_started_anew_whichever_cluster_there_is():
    with Release(f"stable-baselines3=={SB3}", environment={"RAY_ADDRESS": "127.0.0.1:1"}) as release:
        samples = release.run(launch.ray_tasks, [SMALLEST] * 2)["samples"]
    assert len(samples["seconds"]) == 2


def test_a_robot_of_the_same_build_is_gymnasiums(tmp_path):
    options = robots.write_robot(tmp_path / "hopper.xml", robots.Build())
    ours, theirs = gym.make("Hopper-v5", **options).unwrapped.model, gym.make("Hopper-v5").unwrapped.model
    for name in ("body_mass", "body_pos", "geom_size", "geom_pos", "jnt_pos", "actuator_gear", "qpos0"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name)), name


def test_robots_are_of_different_builds_and_stand_on_the_ground(tmp_path):
    weights_and_motors = set()
    for build in robots.builds(4):
        options = robots.write_robot(tmp_path / "hopper.xml", build)
        env = gym.make("Hopper-v5", reset_noise_scale=0, **options)
        env.reset(seed=0)
        model, data = env.unwrapped.model, env.unwrapped.data
        mujoco.mj_forward(model, data)
        foot = model.geom("foot_geom").id
        assert 0 < data.geom_xpos[foot][2] - model.geom_size[foot][0] < 0.08  # a little above it, as Gymnasium's
        assert data.qpos[1] > options["healthy_z_range"][0]
        weights_and_motors.add((round(model.body_mass.sum(), 6), round(float(model.actuator_gear[0, 0]), 6)))
    assert len(weights_and_motors) == 4


def test_few_cores_and_many_are_tried_with_sensible_numbers():
    assert SETTINGS["tiny"].processes(2) == [1, 2, 4]
    assert SETTINGS["smoke"].processes(2) == [1, 2, 4, 8]
    assert SETTINGS["smoke"].processes(16) == [1, 16, 32]
    assert SETTINGS["full"].processes(8) == [1, 8, 16, 32]


class Simulated:
    """A parent on a machine of four cores, where runs at once are ten times too slow because of `cause`."""

    def __init__(self, cause, environment):
        self.cause, self.sleeps = cause, bool(environment)

    def run(self, fn, configs=None, *, processes=None, task="train", method="fork"):
        if fn is launch.scripts:
            return self.measured(1, 1, 4), self.measured(len(configs), len(configs), 4)
        if fn in (training.load, launch.end, launch.fork_after_work):
            return fn is launch.fork_after_work
        processes = processes or (4 if fn is launch.many else len(configs))
        threads = configs[0].get("threads") or (1 if fn in (launch.many, launch.loky) else 4)
        measured = self.measured(len(configs), processes, threads, task)
        return measured | {"parts": [(len(configs), measured["wall"], measured["work"])] * 3}

    def measured(self, runs, processes, threads, task="train"):
        is_spinning = self.cause == "spinning" and threads > 1 and not self.sleeps
        is_locked = self.cause == "lock" and task == "train"
        slower = 10 if processes > 1 and (is_spinning or is_locked) else 1
        seconds = 0.01 * max(1, processes / 4) * slower
        times = dict.fromkeys(("step", "row", "train", "rollout", "seconds"), seconds)
        counts = {"runnable": processes * threads, "torch_threads": threads, "taken_away": 1.0, "given_up": 1.0}
        spans = {"span": seconds * runs / processes, "wall": 1.2 * seconds * runs / processes, "work": seconds * runs}
        measured = times | counts | spans | {"step_cpu": 0.01 * (slower if is_spinning else 1)}
        return measured | {"samples": {name: [value] * 3 for name, value in measured.items()}}

    def close(self):
        pass


@pytest.mark.slow
def test_a_dropped_model_stays_until_the_garbage_collector_runs():
    gc.disable()
    try:
        kept, collected = (sequential.buffers_in_memory(3, 128, collect) for collect in (False, True))
    finally:
        gc.enable()
    own = kept[0][1]
    assert own > 32 * 4 * sequential.OBSERVATION_SIZE and kept == [(count, count * own) for count in (1, 2, 3)]
    assert collected == [(1, own)] * 3


VERDICTS = {  # of PT1 to PT7
    "spinning": ["supported", "refuted", "refuted", "refuted", "partly", "partly", "refuted"],
    "lock": ["supported", "supported", "refuted", "refuted", "refuted", "refuted", "refuted"],
    "nothing": ["refuted", *["not testable here"] * 6],
}
SURVIVORS = {
    "spinning": ["threads that spin while they wait"],
    "lock": ["a lock in autograd", "too few cores"],  # one thread each would not help with a lock either
    "nothing": [
        "the GIL",
        "a lock in autograd",
        "too few cores",
        "threads that spin while they wait",
    ],  # because nothing is slow
}


@pytest.mark.slow
@pytest.mark.parametrize("cause, profile", [("spinning", "smoke"), ("lock", "tiny"), ("nothing", "tiny")])
def test_the_loops_measure_enough_to_distinguish_the_causes(cause, profile, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(measure, "thread_budget", lambda jobs: 4)
    monkeypatch.setattr(launch, "ensemble", lambda *_, **__: {"rollout": 0.1, "train": 0.2, "seconds": 0.4})
    timed = [ensemble_timing.ALONE, *product(("ensemble", "products"), SETTINGS[profile].members)]
    monkeypatch.setattr(ensemble_timing, "step_seconds", lambda *_, **__: dict.fromkeys(timed, (0.01, 0.02)))
    bench = Bench(parallel_training, profile=profile, device="cpu", seed=0, out=tmp_path)
    bench.release = cache(lambda requirement, **environment: Simulated(cause, environment))
    loops = (measure.prepare, measure.pools, measure.scripts, measure.forwards, measure.small_networks)
    loops += (measure.sleeping_threads, measure.start_methods, measure.frameworks, measure.fork_after_work)
    for loop in (*loops, measure.sweep, measure.ensemble, measure.members):
        loop(bench)
    verdicts = [claim.verdict(bench.records) for claim in CLAIMS[:7]]
    assert [verdict.outcome for verdict in verdicts] == VERDICTS[cause]
    assert all(verdict.firm for verdict in verdicts)
    assert profile == "tiny" or not any("one measurement" in verdict.figure for verdict in verdicts)
    table = tables.hypothesis_table(bench.records).splitlines()
    survivors = [line.split(" | ")[0].strip("| ") for line in table if "survives" in line]
    assert survivors == SURVIVORS[cause]
    plotted = (plots.plot_phases, plots.plot_waits, plots.plot_ways, plots.plot_ensemble, plots.plot_members)
    assert all(plot(bench.records).alt() for plot in plotted)
    ratio = bench.records.get("parallel_training.pool_over_train_many").value
    assert ratio == pytest.approx({"spinning": 10, "lock": 1, "nothing": 1}[cause])


@pytest.mark.slow
@pytest.mark.timing
def test_members_together_do_more_than_one_alone():
    seconds = ensemble_timing.step_seconds((1, 64), net=64, rounds=5)
    assert {len(samples) for samples in seconds.values()} == {5}
    alone, _, together, _, products = (float(np.median(samples)) for samples in seconds.values())
    assert 64 * alone / together > 6
    assert 1 < together / products < 4


def test_an_ensemble_of_each_size_is_timed_with_one_thread(monkeypatch):
    real, created, threads = fixes.EnsemblePPO, [], torch.get_num_threads()

    def ensemble(env, **options):
        created.append((len(options["seeds"]), torch.get_num_threads()))
        return real(env, **options)

    monkeypatch.setattr(fixes, "EnsemblePPO", ensemble)
    seconds = ensemble_timing.step_seconds((1, 3), net=8, rounds=2)
    assert created == [(1, 1), (3, 1)] and torch.get_num_threads() == threads
    timed = [ensemble_timing.ALONE, ("ensemble", 1), ("ensemble", 3), ("products", 1), ("products", 3)]
    assert {key: len(samples) for key, samples in seconds.items()} == dict.fromkeys(timed, 2)
