"""Hyperparameters of an ensemble: one number or schedule for all members, or one for each."""

import math
from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np
import torch

Schedule = float | Callable[[float], float] | None
NEVER = {"clip_range_vf": math.inf, "target_kl": math.inf}  # what None means: no clipping, no early stop
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
    """`LIMITS` names them. `values[name]` lists what each of the K members was given; None and numbers are as they
    were, schedules are functions of the remaining progress."""

    def __init__(self, members: int, given: dict[str, Schedule | Sequence[Schedule]]):
        self.values = {name: self._per_member(name, value, members) for name, value in given.items()}

    def at(self, name: str, remaining: float = 1.0) -> np.ndarray:
        """The value for each member (K,), as float64, when this share of the progress remains."""
        values = (each(remaining) if callable(each) else each for each in self.values[name])
        return np.array([NEVER[name] if each is None else float(each) for each in values])

    def now(self, remaining: float, device) -> dict:
        """What an update needs when this share of the progress remains, without what no member uses: tensors (K, 1)
        where they meet minibatches, otherwise (K,); learning_rate and target_kl as arrays (K,)."""
        at = {name: self.at(name, remaining) for name in self.values}
        clip_range = at["clip_range"][:, None]
        now = {
            "lowest_ratio": 1 - clip_range,
            "highest_ratio": 1 + clip_range,
            "vf_coef": at["vf_coef"],
            "max_grad_norm": at["max_grad_norm"][:, None],
        }
        if self.is_given("clip_range_vf"):
            now["clip_range_vf"] = at["clip_range_vf"][:, None]
        if at["ent_coef"].any():
            now["ent_coef"] = at["ent_coef"]
        now = {name: torch.as_tensor(value, dtype=torch.float32).to(device) for name, value in now.items()}
        return now | {"learning_rate": at["learning_rate"], "target_kl": at["target_kl"]}

    def differ(self, name: str) -> bool:
        """Whether members may have different values."""
        return any(each is not self.values[name][0] and each != self.values[name][0] for each in self.values[name])

    def is_given(self, name: str) -> bool:
        """Whether any member has a value, rather than None."""
        return any(each is not None for each in self.values[name])

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
        for member, each in enumerate(values):
            if each is None and name in NEVER:
                continue
            if callable(each) and name not in SCHEDULED:
                raise ValueError(f"{name} must be a number: only {', '.join(SCHEDULED)} can be schedules")
            first = each(1.0) if callable(each) else each
            if not isinstance(first, Real) or not lowest <= first <= highest:
                expected = "positive" if 0 < lowest < 1 else f"between {lowest} and {highest}"
                none = ", or None for no clipping" if name == "clip_range_vf" else ""
                raise ValueError(f"{name} must be {expected}{none}; found {first!r} for member {member}")
        return values
