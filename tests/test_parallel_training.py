"""Chapter 4: the effect is there, and goes with its cause."""

import gymnasium as gym
import mujoco
import numpy as np
import pytest

from rlrepro import fixes
from rlrepro.cases.parallel_training import SB3, SETTINGS, launch, robots, training
from rlrepro.cases.parallel_training import ensemble_timing as members
from rlrepro.fixes import thread_budget
from rlrepro.lab import Release

SIZE = {"net": 512, "steps": 64, "epochs": 5}  # five gradient steps: one of them alone says little
CORES = thread_budget(1)
pytestmark = pytest.mark.skipif(CORES < 2, reason="with one core there is one thread")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return robots.write_robots(tmp_path_factory.mktemp("robots"), 2 * CORES)


def trainings(made, count, **more):
    return [{"robot": robot, "seed": k, **SIZE, **more} for k, robot in enumerate(made[:count])]


def pool(made, count, environment=None, **more):
    with Release(f"stable-baselines3=={SB3}", environment=environment) as fresh:
        return fresh.run(launch.pool, trainings(made, count, **more))


def test_threads_slow_trainings_down_and_nothing_else_does(made):
    most = 2 * CORES
    ways = {
        "default": lambda: pool(made, most),
        "one": lambda: pool(made, most, threads=1),
        "passive": lambda: pool(made, most, {"OMP_WAIT_POLICY": "PASSIVE"}),
        "alone": lambda: pool(made, 1, threads=1),
    }
    rounds = [{name: way() for name, way in ways.items()} for _ in range(3)]
    default, one, passive, alone = (launch.typical([each[name] for each in rounds]) for name in ways)
    assert default["threads"] == passive["threads"] == CORES and one["threads"] == 1
    assert default["step"] > 3 * max(one["step"], passive["step"])
    assert default["step_cpu"] > 3 * alone["step_cpu"]  # it is not a lock that they wait for
    assert one["step_cpu"] < 2 * alone["step_cpu"]
    if "runnable" in default:
        assert default["runnable"] > CORES + 0.5 and one["runnable"] <= most + 0.5


def test_train_many_gives_each_one_thread(made):
    with Release(f"stable-baselines3=={SB3}") as fresh:
        found = fresh.run(launch.many, trainings(made, 2 * CORES))
    assert found["threads"] == 1 and found["work"] > 0 and found["wall"] > found["span"]


def test_a_script_that_fails_says_why(made):
    with pytest.raises(RuntimeError, match=r"a training failed:(?s:.)*no-such-file"):
        launch.scripts([{"robot": {"xml_file": "/no-such-file.xml"}, **SIZE}])


def test_those_that_wait_give_up(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "READY_SECONDS", 0.1)
    with pytest.raises(TimeoutError, match=r"2 training runs to start \(1 have\)"):
        training._wait_for_all(str(tmp_path), 2)


def test_a_robot_of_the_same_build_is_gymnasiums(tmp_path):
    options = robots.write_robot(tmp_path / "hopper.xml", robots.Build())
    ours, theirs = gym.make("Hopper-v5", **options).unwrapped.model, gym.make("Hopper-v5").unwrapped.model
    for name in ("body_mass", "body_pos", "geom_size", "geom_pos", "jnt_pos", "actuator_gear", "qpos0"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name)), name


def test_robots_are_of_different_builds_and_stand_on_the_ground(tmp_path):
    seen = set()
    for options in robots.write_robots(tmp_path, 4):
        env = gym.make("Hopper-v5", reset_noise_scale=0, **options)
        env.reset(seed=0)
        model, data = env.unwrapped.model, env.unwrapped.data
        mujoco.mj_forward(model, data)
        foot = model.geom("foot_geom").id
        assert 0 < data.geom_xpos[foot][2] - model.geom_size[foot][0] < 0.08  # a little above it, as Gymnasium's
        assert data.qpos[1] > options["healthy_z_range"][0]
        seen.add((round(model.body_mass.sum(), 6), round(float(model.actuator_gear[0, 0]), 6)))
    assert len(seen) == 4


def test_few_cores_and_many_are_tried_with_sensible_numbers():
    assert SETTINGS["smoke"].processes(2) == [1, 2, 4, 8]
    assert SETTINGS["smoke"].processes(16) == [1, 16, 32]
    assert SETTINGS["full"].processes(8) == [1, 8, 16, 32]


def test_members_together_do_more_than_one_alone():
    with Release(f"stable-baselines3=={SB3}", environment={"OMP_NUM_THREADS": "1"}) as fresh:
        seconds = fresh.run(members.step_seconds, (1, 16), net=64, rounds=3)
    assert {size: len(taken) for size, taken in seconds.items()} == {members.ALONE: 3, 1: 3, 16: 3}
    alone, _, together = (float(np.median(taken)) for taken in seconds.values())
    assert 16 * alone / together > 3


def test_an_ensemble_of_each_size_is_timed(monkeypatch):
    real, made = fixes.EnsemblePPO, []
    monkeypatch.setattr(fixes, "EnsemblePPO", lambda env, **options: made.append(options) or real(env, **options))
    members.step_seconds((1, 3), net=8, rounds=1)
    assert [len(options["seeds"]) for options in made] == [1, 3]


def test_of_a_gpu_the_most_that_was_held_counts():
    ran = [{"began": 0.0, "ended": 2.0, "step": 1.0, "device_bytes": 5}, {"began": 1.0, "ended": 4.0, "step": 3.0}]
    found = launch.summary([ran[0], ran[1] | {"device_bytes": 2}])
    assert found == {"step": 2.0, "device_bytes": 5, "span": 4.0}
    assert launch.summary([each | {"device_bytes": 0} for each in ran])["device_bytes"] == 0
