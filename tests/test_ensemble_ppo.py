"""EnsemblePPO: each member learns what Stable-Baselines3's PPO learns alone."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger

from rlrepro.fixes import EnsemblePPO
from rlrepro.fixes.ensemble_ppo import envs as ensemble_envs
from rlrepro.fixes.ensemble_ppo import processes
from rlrepro.fixes.ensemble_ppo.rollout import Rollout

from .policies import distance, weights

SIZES = {"n_steps": 128, "batch_size": 50, "n_epochs": 3}  # the last minibatch is shorter
ROUNDING = 2e-6
pytestmark = pytest.mark.usefixtures("no_processes")


def sb3(env, seed, **options):
    return PPO("MlpPolicy", env, seed=seed, device="cpu", **(SIZES | options))


MEMBERS = [
    ("Pendulum-v1", {}),
    ("CartPole-v1", {}),
    ("CartPole-v1", {"ent_coef": 0.05, "vf_coef": 0.3, "max_grad_norm": 0.01, "clip_range": 0.05}),
    ("Pendulum-v1", {"clip_range_vf": 0.1, "normalize_advantage": False, "gamma": 0.9, "gae_lambda": 0.5}),
    (
        "CartPole-v1",
        {"learning_rate": lambda remaining: 1e-2 * remaining, "clip_range": lambda remaining: 0.3 * remaining},
    ),
    ("CartPole-v1", {"target_kl": 1e-3, "learning_rate": 5e-3, "n_epochs": 6}),
    ("Pendulum-v1", {"policy_kwargs": {"net_arch": {"pi": [16], "vf": [32, 8]}, "activation_fn": torch.nn.ReLU}}),
    ("Pendulum-v1", {"policy_kwargs": {"activation_fn": torch.nn.Identity}}),
    ("Pendulum-v1", {"n_steps": 256}),  # episodes end by their time limit
]


@pytest.mark.filterwarnings("ignore:You have specified a mini.batch size")
@pytest.mark.parametrize(
    "env, options", [*MEMBERS[:2], *(pytest.param(*case, marks=pytest.mark.slow) for case in MEMBERS[2:])]
)
def test_each_member_learns_the_same_as_sb3(env, options):
    seeds = [11, 5, 8]
    ensemble = EnsemblePPO(env, seeds=seeds, **(SIZES | options)).learn(512)
    for member, seed in enumerate(seeds):
        reference = sb3(env, seed, **options).learn(512)
        assert distance(ensemble.policy(member), reference.policy) < ROUNDING
        returns = [episode["r"] for episode in reference.ep_info_buffer]
        assert ensemble.episodes[member].returns == pytest.approx(returns, rel=1e-4)
        assert ensemble.episodes[member].lengths == [episode["l"] for episode in reference.ep_info_buffer]


@pytest.mark.filterwarnings("ignore:You have specified a mini.batch size")
def test_members_with_several_environments_equal_sb3():
    from stable_baselines3.common.env_util import make_vec_env

    seeds = [3, 4]
    ensemble = EnsemblePPO("CartPole-v1", seeds=seeds, n_envs=3, **SIZES).learn(768)
    for member, seed in enumerate(seeds):
        reference = sb3(make_vec_env("CartPole-v1", 3), seed).learn(768)
        assert distance(ensemble.policy(member), reference.policy) < ROUNDING


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You have specified a mini.batch size")
def test_members_with_many_truncated_episodes_equal_sb3():
    """The number differs per member in a rollout: an episode ends by itself, or after fifteen steps."""
    seeds = [3, 4, 5]
    ensemble = EnsemblePPO(short_cartpole, seeds=seeds, **SIZES).learn(512)
    for member, seed in enumerate(seeds):
        reference = sb3(short_cartpole(), seed).learn(512)
        assert distance(ensemble.policy(member), reference.policy) < ROUNDING
    n_truncated = [sum(length == 15 for length in episodes.lengths) for episodes in ensemble.episodes]
    assert min(n_truncated) > 5 and len(set(n_truncated)) > 1


def short_cartpole():
    return gym.make("CartPole-v1", max_episode_steps=15)


def test_each_gradient_step_of_each_member_is_sb3s():
    """One update, step by step: the same data and minibatches for both."""
    options = {"n_steps": 96, "batch_size": 32, "n_epochs": 2, "max_grad_norm": 0.05, "ent_coef": 0.01}
    seeds = [1, 2, 3, 4]
    ensemble = EnsemblePPO("Pendulum-v1", seeds=seeds, **options)
    rollout = ensemble.collect()
    history = []
    step = ensemble.optimizer.step
    ensemble.optimizer.step = lambda *args: (step(*args), history.append(ensemble.networks.flat.detach().clone()))
    ensemble.update(rollout)
    assert len(history) == 6
    for member, seed in enumerate(seeds):
        reference = PPO("MlpPolicy", "Pendulum-v1", seed=seed, device="cpu", **options)
        reference.set_logger(Logger(None, []))
        buffer = reference.rollout_buffer
        for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
            values = getattr(rollout, name)[member].numpy()
            setattr(buffer, name, values.reshape(buffer.buffer_size, -1))
        buffer.full = buffer.generator_ready = True
        expected = []
        sb3_step = reference.policy.optimizer.step
        reference.policy.optimizer.step = lambda: (sb3_step(), expected.append(weights(reference.policy).clone()))  # noqa: B023
        reference.train()
        for ours, theirs in zip(history, expected, strict=True):
            assert (ours[member] - theirs).abs().max() < 1e-7


def test_the_clipping_of_one_member_does_not_touch_another():
    ensemble = EnsemblePPO("Pendulum-v1", seeds=[0, 1], max_grad_norm=1e-3, n_steps=64, n_epochs=1)
    single = EnsemblePPO("Pendulum-v1", seeds=[1], max_grad_norm=1e-3, n_steps=64, n_epochs=1)
    scaled = Rollout(**{name: field.clone() for name, field in vars(ensemble.collect()).items()})
    scaled.returns[0] *= 1000
    ensemble.update(scaled)
    single.update(single.collect())
    assert torch.allclose(ensemble.networks.flat[1], single.networks.flat[0], atol=1e-7)


@pytest.mark.slow
def test_learning_curves_are_sb3s():
    """Many seeds of a task that is learned: the ensemble reaches what Stable-Baselines3 reaches."""
    options = {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 1e-3}
    seeds = range(8)
    ensemble = EnsemblePPO("CartPole-v1", seeds=seeds, **options).learn(8192)
    ensemble_returns = [np.mean(ensemble.episodes[member].returns[-10:]) for member in range(8)]
    reference_returns = []
    for seed in (100, 101, 102, 103):
        model = PPO("MlpPolicy", "CartPole-v1", seed=seed, device="cpu", **options).learn(8192)
        reference_returns.append(np.mean([episode["r"] for episode in model.ep_info_buffer][-10:]))
    early_returns = np.mean([ensemble.episodes[member].returns[:10] for member in range(8)])
    assert early_returns < 40 and np.mean(ensemble_returns) > 100
    assert 0.6 < np.mean(ensemble_returns) / np.mean(reference_returns) < 1.6


def test_members_learn_on_robots_of_their_own(tmp_path):
    from rlrepro.cases.parallel_training.robots import builds, write_robot

    robots = [write_robot(tmp_path / f"{k}.xml", build) for k, build in enumerate(builds(3))]
    envs = [lambda robot=robot: gym.make("Hopper-v5", **robot) for robot in robots]
    ensemble = EnsemblePPO(envs, seeds=[0, 1, 2], n_steps=64, n_epochs=2).learn(128)
    reference = PPO("MlpPolicy", envs[2](), seed=2, device="cpu", n_steps=64, n_epochs=2).learn(128)
    assert distance(ensemble.policy(2), reference.policy) < ROUNDING
    assert ensemble.num_timesteps == 128


@pytest.mark.slow
def test_processes_step_the_environments_as_this_one_does():
    learned = []
    for vectorization in ("sync", "async"):
        ensemble = EnsemblePPO("CartPole-v1", seeds=[0, 1], vectorization=vectorization, n_steps=64, n_epochs=1)
        learned.append(ensemble.learn(128).networks.flat.clone())
        ensemble.close()
    assert torch.equal(*learned)


@pytest.mark.parametrize("message_seconds, expected", [(0, "processes"), (math.inf, "this process")])
def test_auto_chooses_processes_if_a_step_takes_longer_than_a_message(message_seconds, expected, monkeypatch):
    monkeypatch.setattr(ensemble_envs, "MESSAGE_SECONDS", message_seconds)
    monkeypatch.setattr(ensemble_envs, "_cores", lambda: 2)
    monkeypatch.setattr(processes, "EnvProcesses", lambda *_, **__: "processes")
    monkeypatch.setattr(ensemble_envs, "SyncVectorEnv", lambda *_, **__: "this process")
    _, start_envs = ensemble_envs.prepare_envs("CartPole-v1", 2, 1, "auto")
    assert start_envs() == expected


def test_a_policy_is_sb3s_own(tmp_path):
    ensemble = EnsemblePPO("Pendulum-v1", seeds=[0, 1], n_steps=64, n_epochs=1).learn(64)
    policy = ensemble.policy(1)
    policy.save(tmp_path / "policy")
    action, _ = type(policy).load(tmp_path / "policy").predict(np.zeros(3, np.float32), deterministic=True)
    expected = ensemble.networks.distribution(torch.zeros(2, 1, 3)).mean[1, 0]
    assert action == pytest.approx(expected.detach().numpy(), abs=1e-6)


def test_a_seed_gives_the_same_result_beside_any_other_member():
    single, several = (EnsemblePPO("CartPole-v1", seeds=seeds, n_steps=64).learn(64) for seeds in ([7], [3, 7, 9]))
    assert torch.allclose(single.networks.flat[0], several.networks.flat[1], atol=ROUNDING)


def test_a_second_call_of_learn_continues_as_sb3s():
    options = {"learning_rate": lambda remaining: 1e-3 * remaining, "n_steps": 64, "batch_size": 32}
    ensemble = EnsemblePPO("Pendulum-v1", seeds=[3, 4], **options)
    reference = PPO("MlpPolicy", "Pendulum-v1", seed=4, device="cpu", **options)
    for steps in (128, 192):
        ensemble.learn(steps)
        reference.learn(steps, reset_num_timesteps=False)
    assert distance(ensemble.policy(1), reference.policy) < ROUNDING


@pytest.mark.gpu
def test_cuda_gives_the_same_result_as_the_cpu():
    learned = [
        EnsemblePPO("Pendulum-v1", seeds=[0, 1], n_steps=64, n_epochs=2, device=device).learn(64).networks.flat.cpu()
        for device in ("cpu", "cuda")
    ]
    assert torch.allclose(*learned, atol=1e-5)
