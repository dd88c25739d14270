"""What an ensemble can train: anything else is refused, because a member would not learn what it learns alone."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW)
ELEMENTWISE = (  # activations that treat each number on its own, without weights and without randomness
    nn.ReLU,
    nn.Tanh,
    nn.ELU,
    nn.LeakyReLU,
    nn.SELU,
    nn.CELU,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Sigmoid,
    nn.Softplus,
    nn.Softsign,
    nn.Hardtanh,
    nn.Hardswish,
    nn.ReLU6,
    nn.Identity,
)


def check_spaces(observation_space, action_space) -> None:
    """Raises ValueError unless observations are vectors of numbers, and actions Discrete or a one-dimensional Box of
    floats."""
    if not isinstance(observation_space, gym.spaces.Box) or len(observation_space.shape) != 1:
        raise ValueError(f"observations must be vectors (a one-dimensional Box), found {observation_space}")
    is_vector = (
        isinstance(action_space, gym.spaces.Box)
        and len(action_space.shape) == 1
        and np.issubdtype(action_space.dtype, np.floating)
    )
    if not is_vector and not isinstance(action_space, gym.spaces.Discrete):
        raise ValueError(f"actions must be Discrete, or a one-dimensional Box of floats, found {action_space}")


def check_policy(policy) -> None:
    """Raises ValueError if `policy_kwargs` ask for something that can't be batched."""
    if type(policy.optimizer) not in OPTIMIZERS:
        names = [optimizer.__name__ for optimizer in OPTIMIZERS]
        raise ValueError(f"optimizer_class must be one of {names}, found {type(policy.optimizer).__name__}")
    if type(policy.features_extractor) is not FlattenExtractor:
        raise ValueError(
            f"features_extractor_class must be FlattenExtractor, found {type(policy.features_extractor).__name__}"
        )
    if policy.use_sde:
        raise ValueError("use_sde must be False: state-dependent noise can't be batched")
    for layer in [*policy.mlp_extractor.policy_net, *policy.mlp_extractor.value_net]:
        if not isinstance(layer, nn.Linear) and type(layer) not in ELEMENTWISE:
            names = ", ".join(activation.__name__ for activation in ELEMENTWISE)
            raise ValueError(f"activation_fn must be one of {names}, found {type(layer).__name__}")


def check_minibatches(batch_size: int, transitions: int, normalize_advantage: bool, clip_range_vf) -> None:
    """Raises ValueError for sizes that Stable-Baselines3 refuses as well."""
    if normalize_advantage and min(batch_size, transitions) < 2:
        raise ValueError(
            "with normalize_advantage a minibatch must have at least 2 transitions, found "
            f"batch_size={batch_size} in a rollout of {transitions}: a single advantage has no deviation to divide by"
        )
    if isinstance(clip_range_vf, float | int) and clip_range_vf <= 0:
        raise ValueError(f"clip_range_vf must be positive, or None for no clipping; found {clip_range_vf}")
