"""Stable-Baselines3's own updates, planned and run."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlrepro.fit import CannotPlan, plan, plan_model
from rlrepro.lab import VirtualCard

pytest.importorskip("stable_baselines3")
FRAMES, VECTOR = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Box(-1, 1, (17,), np.float32)
BOX, CHOICE = spaces.Box(-1, 1, (6,), np.float32), spaces.Discrete(6)
DICT = spaces.Dict({"camera": spaces.Box(0, 255, (3, 40, 40), np.uint8), "speed": VECTOR})
MODELS = {  # name: class, policy, observations, actions, arguments
    "PPO": ("PPO", "MlpPolicy", VECTOR, BOX, {"n_steps": 256, "batch_size": 64, "n_epochs": 2}),
    "PPO of a Dict": ("PPO", "MultiInputPolicy", DICT, CHOICE, {"n_steps": 64, "batch_size": 32, "n_epochs": 1}),
    "A2C": ("A2C", "CnnPolicy", FRAMES, CHOICE, {"n_steps": 16}),
    "DQN": ("DQN", "MlpPolicy", VECTOR, CHOICE, {"buffer_size": 20_000, "batch_size": 128}),
    "DQN of frames": ("DQN", "CnnPolicy", FRAMES, CHOICE, {"buffer_size": 100, "batch_size": 32}),
    "SAC": ("SAC", "MlpPolicy", VECTOR, BOX, {"buffer_size": 20_000, "batch_size": 256}),
    "TD3": ("TD3", "MlpPolicy", VECTOR, BOX, {"buffer_size": 20_000, "batch_size": 100}),
}


def build(name, **overrides):
    import stable_baselines3
    from stable_baselines3.common.logger import Logger

    algorithm, policy, obs_space, act_space, arguments = MODELS[name]

    class Env(gym.Env):
        observation_space, action_space = obs_space, act_space

    model = getattr(stable_baselines3, algorithm)(policy, Env(), device="cpu", **{**arguments, **overrides})
    model.set_logger(Logger(None, []))
    return model


def train(model):
    if hasattr(model, "replay_buffer"):
        model.replay_buffer.full = True
        model.train(gradient_steps=2, batch_size=model.batch_size)
    else:
        model.rollout_buffer.reset()
        model.rollout_buffer.full = True
        model.train()


@pytest.mark.parametrize(
    "name", [name if name in ("A2C", "DQN") else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_an_update_is_planned_as_the_model_runs_it(name):
    with VirtualCard(64, device="cpu") as card:
        model = build(name)
        train(model)
        card.restart_peak()
        train(model)
        peak = card.peak_bytes
    assert plan_model(model, device="cpu").stages["learn"] == pytest.approx(peak, abs=300)  # a vector of a minibatch


@pytest.mark.slow
def test_a_replay_buffer_of_frames_counts_next_observations_and_bytes():
    model, frame = build("DQN of frames"), 4 * 84 * 84
    small, large = (plan_model(model, buffer_size=size) for size in (10_000, 1_000_000))
    per_transition = (large.host_bytes - small.host_bytes) / 990_000
    assert 2 * frame < per_transition < 2 * frame + 32  # observation, next observation, and a few numbers
    shared = build(
        "DQN of frames", optimize_memory_usage=True, replay_buffer_kwargs={"handle_timeout_termination": False}
    )
    assert plan_model(shared, buffer_size=1_000_000).host_bytes == pytest.approx(large.host_bytes / 2, rel=0.01)
    assert large.stages == small.stages


@pytest.mark.slow
def test_the_largest_batch_of_a_model():
    planned = plan_model(build("DQN of frames"), device="cpu", device_memory_gib=0.2)
    size = planned.largest("batch_size")
    assert planned.at(batch_size=size).fits() and not planned.at(batch_size=size + 1).fits()


@pytest.mark.slow
def test_a_minibatch_is_at_most_the_rollout_and_sizes_that_are_tried_print_no_warnings(recwarn):
    planned = plan_model(build("PPO"), n_steps=500, batch_size=300, device_memory_gib=8)
    assert planned.largest_batch_size() == 500 and planned.at(n_steps=700).largest_batch_size() == 700
    assert not [str(warning.message) for warning in recwarn if warning.category is UserWarning]


def test_the_error_names_what_to_pass_instead_of_a_model_or_policy():
    model = build("PPO")
    with pytest.raises(CannotPlan, match=r"plan_model\(model\), or pass model.policy"):
        plan(model, rollout=64)
    with pytest.raises(CannotPlan, match="did you mean library='sb3-ppo'"):
        plan(model.policy, rollout=64)
    with pytest.raises(CannotPlan, match=r"a policy of A2C.*plan_model\(model\)"):
        plan(build("A2C").policy, rollout=64, library="sb3-ppo")
    with pytest.raises(CannotPlan, match=r"Dict[\s\S]*plan_model\(model\)"):
        plan(build("PPO of a Dict").policy, rollout=64, library="sb3-ppo")
    with pytest.raises(CannotPlan, match="model must be a Stable-Baselines3 model"):
        plan_model(model.policy)
