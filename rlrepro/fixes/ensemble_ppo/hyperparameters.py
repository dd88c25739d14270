"""Hyperparameters of an ensemble: one number or schedule for all members, or one for each."""

import math
from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np
import torch

Schedule = float | Callable[[float], float] | None
IF_NONE = {"clip_range_vf": math.inf, "target_kl": math.inf}  # no clipping, no early stop
LIMITS = {  # lowest and highest value; exclusive where SB3 or torch could not compute with it
    "learning_rate": (0, math.inf),
    "clip_range": (0, math.inf),
    "clip_range_vf": (math.nextafter(0, 1), math.inf),
    "ent_coef": (-math.inf, math.inf),
    "vf_coef": (0, math.inf),
    "gamma": (0, 1),
    "gae_lambda": (0, 1),
    "max_grad_norm": (0, math.inf),
    "target_kl": (math.nextafter(0, 1), math.inf),
}
SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf")


class Hyperparameters:
    """`LIMITS` has their names. `values[name]` lists the setting of each of the K members: None, a number, or a
    schedule, which is a function of the remaining progress."""

    def __init__(self, members: int, settings: dict[str, Schedule | Sequence[Schedule]]):
        self.values = {name: self._per_member(name, value, members) for name, value in settings.items()}

    def at(self, name: str, remaining: float = 1.0) -> np.ndarray:
        """The value for each member (K,), as float64, when this share of the progress remains."""
        values = (setting(remaining) if callable(setting) else setting for setting in self.values[name])
        return np.array([IF_NONE[name] if value is None else float(value) for value in values])

    def for_update(self, remaining: float, device) -> dict:
        """The values for an update when this share of the progress remains, without those that no member uses: tensors,
        (K, 1) if they are combined with minibatches, otherwise (K,); learning_rate and target_kl as arrays (K,)."""
        values = {name: self.at(name, remaining) for name in self.values}
        clip_range = values["clip_range"][:, None]
        tensors = {
            "lowest_ratio": 1 - clip_range,
            "highest_ratio": 1 + clip_range,
            "vf_coef": values["vf_coef"],
            "max_grad_norm": values["max_grad_norm"][:, None],
        }
        if self.is_set("clip_range_vf"):
            tensors["clip_range_vf"] = values["clip_range_vf"][:, None]
        if values["ent_coef"].any():
            tensors["ent_coef"] = values["ent_coef"]
        tensors = {name: torch.as_tensor(value, dtype=torch.float32).to(device) for name, value in tensors.items()}
        return tensors | {"learning_rate": values["learning_rate"], "target_kl": values["target_kl"]}

    def differ(self, name: str) -> bool:
        """Whether members may have different values."""
        return any(value is not self.values[name][0] and value != self.values[name][0] for value in self.values[name])

    def is_set(self, name: str) -> bool:
        """Whether any member has a value, rather than None."""
        return any(value is not None for value in self.values[name])

    def of(self, member: int) -> dict:
        """The values of one member."""
        return {name: values[member] for name, values in self.values.items()}

    @staticmethod
    def _per_member(name: str, value, members: int) -> list:
        is_single = value is None or callable(value) or isinstance(value, Real | str)
        values = [value] * members if is_single else list(value)
        if len(values) != members:
            raise ValueError(f"{name} must be one value, or one for each of {members} members; found {len(values)}")
        lowest, highest = LIMITS[name]
        for member, setting in enumerate(values):
            if setting is None and name in IF_NONE:
                continue
            if callable(setting) and name not in SCHEDULED:
                raise ValueError(f"{name} must be a number: only {', '.join(SCHEDULED)} can be schedules")
            initial = setting(1.0) if callable(setting) else setting
            if not isinstance(initial, Real) or not lowest <= initial <= highest:
                expected = "a positive number" if 0 < lowest < 1 else f"a number between {lowest} and {highest}"
                none = ", or None" if name in IF_NONE else ""
                raise ValueError(f"{name} must be {expected}{none}; found {initial!r} for member {member}")
        return values
