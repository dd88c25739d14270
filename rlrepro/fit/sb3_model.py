"""plan_model(model): an update of any Stable-Baselines3 algorithm, by the model's own train()."""

import inspect
import warnings
from itertools import islice

import gymnasium as gym
import torch

from rlrepro.fit.marks import keeps_all, stage
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import OwnUpdatePlanner
from rlrepro.fit.padded_sequences import is_recurrent, padded_sequences

NOT_COPIED = {"self", "policy", "env", "device", "verbose", "tensorboard_log", "seed", "_init_setup_model"}
SIZES = ("batch_size", "n_steps", "buffer_size")
MINIBATCHES = 3  # that are run


def plan_model(model, *, device: str = "cuda", device_memory_gib: float | None = None, **sizes: int) -> Plan:
    """Plan an update of a Stable-Baselines3 model (PPO, A2C, DQN, SAC, TD3, sb3-contrib's RecurrentPPO and QRDQN, or
    another with the same interface).

    A model of the same class and arguments is built on tensors that take no memory, its buffer is taken to be full, and
    its `train` is run, of which a few minibatches are enough. The buffer is in host memory: `plan.host_bytes`.
    RecurrentPPO pads the sequences of a minibatch to the longest. Their number depends on the episodes, so the worst
    case is planned, which a note names. `plan.largest_batch_size()` is at most the length of the rollout.

    Args:
        sizes: `batch_size`, `n_steps` or `buffer_size`, where they differ from the model's; `sequences`, if a minibatch
            of a recurrent algorithm never has more than this many

    Raises CannotPlan for anything that is not such a model, and as `plan_update` does.
    """
    from stable_baselines3.common.base_class import BaseAlgorithm

    if not isinstance(model, BaseAlgorithm):
        raise CannotPlan(f"model must be a Stable-Baselines3 model, as PPO(...) is; found {type(model).__name__}")
    parameters = inspect.signature(type(model).__init__).parameters.keys()
    arguments = {name: getattr(model, name) for name in parameters - NOT_COPIED if hasattr(model, name)}
    arguments |= {"n_epochs": min(arguments["n_epochs"], 2)} if "n_epochs" in arguments else {}
    sizes = {name: arguments[name] for name in SIZES if name in arguments} | sizes
    if "sequences" in sizes and not is_recurrent(model):
        raise CannotPlan(f"sequences is a size of recurrent algorithms; {type(model).__name__} has none")

    def make(sequences=None, **given):
        env = _vector_env(model.observation_space, model.action_space, model.n_envs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about sizes that are only tried, and MLPs on a GPU
            made = type(model)(model.policy_class, env, device=device, **{**arguments, **given})
        made.set_logger(_silent())
        return made

    def step(made, sequences=None, **given):
        with stage("collect"), torch.no_grad():
            made.policy.set_training_mode(False)
            obs = made.policy.obs_to_tensor(_zeros(model.observation_space, model.n_envs))[0]
            states = getattr(made, "_last_lstm_states", None)
            made.policy(obs, *([] if states is None else [states, torch.zeros(model.n_envs, device=made.device)]))
        if buffer := getattr(made, "replay_buffer", None):
            buffer.full = True
            run = {"gradient_steps": 2, "batch_size": given.get("batch_size", made.batch_size)}
        else:
            _fill(made.rollout_buffer)
            run = {}
        with stage("learn"), keeps_all(), padded_sequences(made, sequences):
            made.train(**run)

    on_policy = hasattr(model, "rollout_buffer")
    most = {"batch_size": lambda sizes: sizes["n_steps"] * model.n_envs} if on_policy else {}  # the whole rollout
    return OwnUpdatePlanner(make, step, device, most=most).plan(device_memory_gib, **sizes)


def _fill(buffer) -> None:
    """Let a rollout buffer count as full. Of its minibatches, the first few need as much as all of them."""
    buffer.reset()
    buffer.full = True
    buffer.get = lambda batch_size=None: islice(type(buffer).get(buffer, batch_size), MINIBATCHES)


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
