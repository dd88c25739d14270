"""plan_model(model): an update of any Stable-Baselines3 algorithm, by the model's own train()."""

import inspect
import warnings
from itertools import islice

import gymnasium as gym
import torch
from gymnasium.vector.utils import create_empty_array

from rlrepro.fit.marks import keeps_all, stage
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import OwnUpdatePlanner
from rlrepro.fit.padded_sequences import is_recurrent, padded_sequences

NOT_COPIED = {"self", "policy", "env", "device", "verbose", "tensorboard_log", "seed", "_init_setup_model"}
SIZES = ("batch_size", "n_steps", "buffer_size")
MINIBATCHES = 3  # number that is run


def plan_model(model, *, device: str = "cuda", device_memory_gib: float | None = None, **sizes: int) -> Plan:
    """Plan an update of a Stable-Baselines3 model (PPO, A2C, DQN, SAC, TD3, sb3-contrib's RecurrentPPO and QRDQN, or
    another with the same interface).

    A model with the same class and arguments is built on tensors that take no memory. Its buffer counts as full, and
    its `train` is run for a few minibatches, which need as much as all of them. The buffer is in host memory: see
    `plan.host_bytes`. RecurrentPPO pads the sequences of a minibatch to the longest. Their number depends on the
    episodes, so the plan assumes the worst case and says so in a note. `plan.largest_batch_size()` is at most the
    length of the rollout.

    Args:
        sizes: `batch_size`, `n_steps` or `buffer_size`, where they differ from the model's; `sequences`, the maximum
            number in a minibatch of a recurrent algorithm
        device, device_memory_gib: as in `plan_update`

    Raises CannotPlan for anything that is not such a model, and as `plan_update` does.
    """
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    if not isinstance(model, BaseAlgorithm):
        raise CannotPlan(f"model must be a Stable-Baselines3 model such as PPO(...); found {type(model).__name__}")
    parameters = inspect.signature(type(model).__init__).parameters.keys()
    arguments = {name: getattr(model, name) for name in parameters - NOT_COPIED if hasattr(model, name)}
    arguments |= {"n_epochs": min(arguments["n_epochs"], 2)} if "n_epochs" in arguments else {}
    sizes = {name: arguments[name] for name in SIZES if name in arguments} | sizes
    if "sequences" in sizes and not is_recurrent(model):
        raise CannotPlan(f"sequences is a size of recurrent algorithms; {type(model).__name__} has none")

    class Env(gym.Env):
        observation_space, action_space = model.observation_space, model.action_space

    def make(sequences=None, **overrides):
        env = DummyVecEnv([Env] * model.n_envs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about sizes that are only tried, and MLPs on a GPU
            replica = type(model)(model.policy_class, env, device=device, **{**arguments, **overrides})
        replica.set_logger(Logger(None, []))
        return replica

    def step(replica, sequences=None, **overrides):
        with stage("collect"), torch.no_grad():
            replica.policy.set_training_mode(False)
            obs = replica.policy.obs_to_tensor(create_empty_array(model.observation_space, model.n_envs))[0]
            states = getattr(replica, "_last_lstm_states", None)
            replica.policy(obs, *([] if states is None else [states, torch.zeros(model.n_envs, device=replica.device)]))
        if buffer := getattr(replica, "replay_buffer", None):
            buffer.full = True
            train_options = {"gradient_steps": 2, "batch_size": overrides.get("batch_size", replica.batch_size)}
        else:
            _fill(replica.rollout_buffer)
            train_options = {}
        with stage("learn"), keeps_all(), padded_sequences(replica, sequences):
            replica.train(**train_options)

    on_policy = hasattr(model, "rollout_buffer")
    max_sizes = {"batch_size": lambda sizes: sizes["n_steps"] * model.n_envs} if on_policy else {}  # the whole rollout
    return OwnUpdatePlanner(make, step, device, max_sizes=max_sizes).plan(device_memory_gib, **sizes)


def _fill(buffer) -> None:
    """Mark a rollout buffer as full, and let it return only its first few minibatches."""
    buffer.reset()
    buffer.full = True
    buffer.get = lambda batch_size=None: islice(type(buffer).get(buffer, batch_size), MINIBATCHES)
