"""Checks of what an ensemble can train. Anything else is refused, because members would not learn as they do alone."""

import operator
import warnings

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.utils import get_device
from torch import nn

OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW)
ELEMENTWISE = (  # elementwise activations without weights or randomness
    nn.ReLU, nn.Tanh, nn.ELU, nn.LeakyReLU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.Softplus,
    nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.ReLU6, nn.Identity,
)  # fmt: skip


def check_spaces(observation_space, action_space) -> None:
    """Raises ValueError unless observations are vectors, and actions Discrete or bounded vectors of floats."""
    if not isinstance(observation_space, gym.spaces.Box) or len(observation_space.shape) != 1:
        raise ValueError(f"observations must be vectors (a one-dimensional Box), found {observation_space}")
    is_vector = isinstance(action_space, gym.spaces.Box) and len(action_space.shape) == 1
    is_vector = is_vector and np.issubdtype(action_space.dtype, np.floating) and action_space.is_bounded()
    if not is_vector and not isinstance(action_space, gym.spaces.Discrete):
        raise ValueError(f"actions must be Discrete, or a one-dimensional, bounded Box of floats, found {action_space}")


def check_policy(policy) -> None:
    """Raises ValueError if `policy_kwargs` request something that can't be batched."""
    if (optimizer_class := type(policy.optimizer)) not in OPTIMIZERS:
        names = [optimizer.__name__ for optimizer in OPTIMIZERS]
        raise ValueError(f"optimizer_class must be one of {names}, found {optimizer_class.__name__}")
    if (extractor := type(policy.features_extractor)) is not FlattenExtractor:
        raise ValueError(f"features_extractor_class must be FlattenExtractor, found {extractor.__name__}")
    if policy.use_sde:
        raise ValueError("use_sde must be False: state-dependent noise can't be batched")
    for layer in [*policy.mlp_extractor.policy_net, *policy.mlp_extractor.value_net]:
        if not isinstance(layer, nn.Linear) and type(layer) not in ELEMENTWISE:
            names = ", ".join(activation.__name__ for activation in ELEMENTWISE)
            raise ValueError(f"activation_fn must be one of {names}, found {type(layer).__name__}")


def check_seeds(seeds) -> list[int]:
    """The seeds as integers. Raises ValueError unless there is at least one, and NumPy accepts each of them."""
    try:
        checked = [operator.index(seed) for seed in seeds]
    except TypeError as error:
        example = f"range({seeds})" if isinstance(seeds, int) else "range(4)"
        raise ValueError(f"seeds must be integers, one for each member, as in {example}; found {seeds!r}") from error
    if not checked or not all(0 <= seed < 2**32 for seed in checked):
        raise ValueError(f"seeds must be at least one integer from 0 to 2**32 - 1, found {checked}")
    return checked


def check_device(device) -> torch.device:
    """The device; "auto" is CUDA if available, else the CPU. Raises ValueError for a CUDA device that doesn't exist."""
    device = get_device(device) if device == "auto" else torch.device(device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device must be 'cpu' or one of the {torch.cuda.device_count()} CUDA devices; found {device}")
    return device


def check_minibatches(normalize_advantage: bool, sizes: dict[str, int]) -> list[int]:
    """The sizes as Python's integers. Raises ValueError for invalid ones, and warns of a batch that can't be filled."""
    for name, size in sizes.items():
        if not hasattr(size, "__index__") or size < 1:
            raise ValueError(f"{name} must be a whole number of 1 or more, found {size!r}")
    sizes = {name: operator.index(size) for name, size in sizes.items()}  # torch refuses NumPy's integers as sizes
    batch_size, transitions = sizes["batch_size"], sizes["n_envs"] * sizes["n_steps"]
    if normalize_advantage and min(batch_size, transitions) < 2:
        raise ValueError(
            f"with normalize_advantage a minibatch must have at least 2 transitions, found batch_size={batch_size} in "
            f"a rollout of {transitions}: one advantage has no standard deviation to divide by; raise the smaller one"
        )
    if batch_size > transitions:
        warnings.warn(
            f"batch_size={batch_size} is larger than a member's rollout (n_steps × n_envs = {transitions}), so each "
            f"minibatch has only {transitions}",
            stacklevel=3,
        )
    return list(sizes.values())


def warn_of_twins(seeds, hyperparameters, env) -> None:
    """Warns of members that would learn the same, with the same seed, hyperparameters and environment."""
    if not isinstance(env, str) and not callable(env):
        return  # each member has its own environment
    first_members = {}
    for member, seed in enumerate(seeds):
        values = hyperparameters.of(member).values()
        twin = first_members.setdefault((seed, *(id(x) if callable(x) else x for x in values)), member)
        if twin != member:
            message = (
                f"members {twin} and {member} learn the same policy, with equal seeds ({seed}) and settings; change one"
            )
            warnings.warn(message, stacklevel=3)
