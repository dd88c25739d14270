"""plan_model(model): an update of any Stable-Baselines3 algorithm, by the model's own train()."""

import inspect
from contextlib import contextmanager
from unittest.mock import patch

import gymnasium as gym
import torch

from rlrepro.fit.marks import keeps_all, reads, stage
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import plan_update

NOT_COPIED = {"self", "policy", "env", "device", "verbose", "tensorboard_log", "seed", "_init_setup_model"}
SIZES = ("batch_size", "n_steps", "buffer_size")


def plan_model(model, *, device: str = "cuda", device_memory_gib: float | None = None, **sizes: int) -> Plan:
    """Plan an update of a Stable-Baselines3 model (PPO, A2C, DQN, SAC, TD3, sb3-contrib's RecurrentPPO and QRDQN, or
    another with the same interface).

    A model of the same class and arguments is built on tensors that take no memory, its buffer is taken to be full, and
    its `train` is run. The buffer is in host memory: `plan.host_bytes`. The minibatches of RecurrentPPO are planned as
    sequences without padding, one for each environment, in which an episode begins.

    Args:
        sizes: `batch_size`, `n_steps` or `buffer_size`, where they differ from the model's

    Raises CannotPlan for anything that is not such a model, and as `plan_update` does.
    """
    from stable_baselines3.common.base_class import BaseAlgorithm

    if not isinstance(model, BaseAlgorithm):
        raise CannotPlan(f"model must be a Stable-Baselines3 model, as PPO(...) is; found {type(model).__name__}")
    parameters = inspect.signature(type(model).__init__).parameters.keys()
    arguments = {name: getattr(model, name) for name in parameters - NOT_COPIED if hasattr(model, name)}
    sizes = {name: arguments[name] for name in SIZES if name in arguments} | sizes

    def make(**given):
        env = _vector_env(model.observation_space, model.action_space, model.n_envs)
        made = type(model)(model.policy_class, env, device=device, **{**arguments, **given})
        made.set_logger(_silent())
        return made

    def step(made, **given):
        with stage("collect"), torch.no_grad():
            made.policy.set_training_mode(False)
            obs = made.policy.obs_to_tensor(_zeros(model.observation_space, model.n_envs))[0]
            states = getattr(made, "_last_lstm_states", None)
            made.policy(obs, *([] if states is None else [states, torch.zeros(model.n_envs, device=made.device)]))
        if buffer := getattr(made, "replay_buffer", None):
            buffer.full = True
            run = {"gradient_steps": 2, "batch_size": given.get("batch_size", made.batch_size)}
        else:
            made.rollout_buffer.reset()
            made.rollout_buffer.full, run = True, {}
        with stage("learn"), keeps_all(), _episodes_begin(made.policy):
            made.train(**run)

    return plan_update(make, step, device=device, device_memory_gib=device_memory_gib, **sizes)


@contextmanager
def _episodes_begin(policy):
    """A recurrent policy looks whether an episode begins within its sequences: then it goes on step by step."""
    if not hasattr(policy, "_process_sequence"):
        yield
        return
    process = policy._process_sequence

    def step_by_step(*args):
        with reads(False):
            return process(*args)

    with patch.object(policy, "_process_sequence", step_by_step):
        yield


def _vector_env(obs_space, act_space, count: int):
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Env(gym.Env):
        observation_space, action_space = obs_space, act_space

    return DummyVecEnv([Env] * count)


def _silent():
    from stable_baselines3.common.logger import Logger

    return Logger(None, [])


def _zeros(space, count: int):
    """Observations of that many environments."""
    from gymnasium.vector.utils import create_empty_array

    return create_empty_array(space, count)
