"""plan(actor, critic, ...): the peak of each stage of an update, and the largest sizes that fit on a card."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import psutil
import torch
from gymnasium import spaces

from rlrepro.fit.dry_run import DryRun
from rlrepro.fit.operators import OperatorMemory
from rlrepro.fit.rehearsal import Rehearsal
from rlrepro.fit.sb3 import SB3Stages
from rlrepro.fit.tianshou import TianshouStages
from rlrepro.fit.torchrl import TorchRLStages
from rlrepro.lab.machine import resolve_device
from rlrepro.lab.units import format_value

LIBRARIES = {
    "tianshou-ppo": partial(TianshouStages, algorithm="PPO"),
    "tianshou-a2c": partial(TianshouStages, algorithm="A2C"),
    "sb3-ppo": SB3Stages,
    "torchrl-ppo": TorchRLStages,
}
LARGEST = 2**32  # chunks beyond which a search gives up: the card is not what ends it
RESERVE = 0.03  # of what a stage needs: operators round their workspaces up, and change algorithms with the size
REHEARSAL_COPIES = 8  # of the weights, that a rehearsal may need: gradients, the optimizer's state, and room


class CannotPlan(ValueError):
    """An argument of `plan` that it can't work with: which, what was expected, what was found."""


@dataclass(frozen=True)
class Plan:
    """What an update would need.

    `stages` maps each stage to the bytes of tensors live on the card at its worst moment: weights, gradients and the
    optimizer's state, the rollout's tensors and the activations. `margins` maps it to what operators take for
    themselves on top, as measured on this machine (another kind of card may choose other algorithms), and a small
    reserve; it is empty where nothing was measured. What an allocator keeps beyond what it gives out is in neither.
    """

    stages: dict[str, int]
    margins: dict[str, int]
    rollout: int
    max_batchsize: int | None
    batch_size: int
    device_memory_gib: float | None
    _stages: object = field(repr=False)
    _envs: int = field(repr=False)

    @property
    def needed(self) -> dict[str, int]:
        """Bytes of each stage, margin included."""
        return {name: peak + self.margins.get(name, 0) for name, peak in self.stages.items()}

    @property
    def peak_bytes(self) -> int:
        return max(self.needed.values())

    def fits(self, gib: float | None = None) -> bool:
        """Whether every stage fits, with its margin, on a card of `gib` GiB (`device_memory_gib` where left out)."""
        return self.failing_stage(gib) is None

    def failing_stage(self, gib: float | None = None) -> str | None:
        """The first stage that does not fit, in the order in which they run; None where all do."""
        limit = self._limit(gib)
        return next((name for name, peak in self.needed.items() if peak > limit), None)

    def largest_batch_size(self, gib: float | None = None) -> int:
        """The most rows of a gradient step, with this rollout, that fit; 0 where not even one does, and the rollout's
        length where all of it does.

        tianshou joins a short remainder to the last minibatch, which makes that one larger, so that not every smaller
        size fits too.
        """
        return self._largest_cut(self._stages.learn, self._limit(gib))

    def largest_max_batchsize(self, gib: float | None = None) -> int:
        """The most rows of a forward pass without gradients, with this rollout, that fit; as above. Raises CannotPlan
        for a library that has no such parameter."""
        if self.max_batchsize is None:
            raise CannotPlan("this library has no max_batchsize")
        return self._largest_cut(self._stages.preprocess, self._limit(gib))

    def _largest_cut(self, stage: Callable, limit: int) -> int:
        """The largest size that fits: where remainders are joined, the largest one whose largest chunk fits."""
        rollout = self.rollout

        def needed(rows, size):
            return self._with_margin(stage(rows, size))

        if not self._stages.joins_rest:
            return _largest(lambda size: needed(rollout, size), limit, rollout)
        most = _largest(lambda size: needed(-(-rollout // size) * size, size), limit, rollout)
        sizes = (size for size in range(most, 0, -1) if size == rollout or size + rollout % size <= most)
        return next((size for size in sizes if needed(rollout, size) <= limit), 0)

    def largest_rollout(self, gib: float | None = None) -> int | None:
        """The longest rollout with these batch sizes that fits on the card, in whole chunks of them; 0 where none does,
        and None where the card sets no limit. Its observations lie in host memory, which this does not look at."""
        limit, chunk = self._limit(gib), self.max_batchsize or self.batch_size

        def peak(chunks):
            peaks = _peaks(self._stages, chunks * chunk, self.max_batchsize, self.batch_size, self._envs)
            return max(map(self._with_margin, peaks.values()))

        chunks = _largest(peak, limit, LARGEST)
        return None if chunks == LARGEST else chunk * chunks

    def _with_margin(self, peaks: np.ndarray) -> int:
        return _with_reserve(peaks) if self.margins else int(peaks[0])

    def _limit(self, gib: float | None) -> int:
        gib = self.device_memory_gib if gib is None else gib
        if gib is None or not gib > 0:
            raise CannotPlan(f"gib must be a positive number of GiB (or give plan() device_memory_gib), found {gib!r}")
        return int(gib * 2**30)

    def __str__(self) -> str:
        def lines() -> Iterator[str]:
            for name, peak in self.stages.items():
                margin = f" + {format_value(self.margins[name], 'B'):>9} of operators" if self.margins else ""
                yield f"{name:12}{format_value(peak, 'B'):>12} of tensors{margin}"

        return "\n".join(lines())


def plan(
    actor: torch.nn.Module,
    critic: torch.nn.Module | None = None,
    obs_space: spaces.Space | None = None,
    act_space: spaces.Space | None = None,
    *,
    rollout: int,
    batch_size: int = 64,
    max_batchsize: int | None = None,
    library: str = "tianshou-ppo",
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
    dtype: torch.dtype = torch.float32,
    dist_fn: Callable | None = None,
    envs: int = 1,
    device_memory_gib: float | None = None,
    device: str = "cuda",
) -> Plan:
    """Plan one update of a library's algorithm around these networks: its own code is run on tensors that have shapes
    and no memory, so a laptop can plan for any card. A few rows are run for real, to measure operators on this machine.

    | library | actor | critic |
    |---|---|---|
    | "tianshou-ppo", "tianshou-a2c" | `actor(obs, state, info)` gives (parameters, state) | `critic(obs)` |
    | "sb3-ppo" | the policy, as `model.policy` is | None |
    | "torchrl-ppo" | a ProbabilisticActor with `return_log_prob=True` | a ValueOperator |

    tianshou's parameters are what `dist_fn` takes, and its critic gives (rows, 1). Networks are copied, not changed;
    build those that are larger than this machine's memory under `torch.device("meta")`. `obs_space` and `act_space` may be left out where the actor has `observation_space` and
    `action_space`. `dist_fn` is by default what tianshou's examples use: Categorical of logits, or an independent
    Normal of a pair. `rollout`, `max_batchsize` (tianshou's; 256 by default) and `batch_size` are rows; `envs` is how
    many environments are stepped at once. `device` is "cuda" for a card, to which observations are copied and on which
    optimizers work on all parameters at once, or "cpu", where neither is so.

    Raises CannotPlan, naming the argument, for sizes that are not positive, a space that is not supported, a network
    that can't take the observation, and code that can't be followed without computing it.
    """
    if library not in LIBRARIES:
        raise CannotPlan(f"library must be one of {', '.join(LIBRARIES)}; found {library!r}")
    if device not in ("cuda", "cpu"):
        raise CannotPlan(f"device must be cuda or cpu; found {device!r}")
    is_tianshou = library.startswith("tianshou")
    if is_tianshou:
        max_batchsize = 256 if max_batchsize is None else max_batchsize
    elif max_batchsize is not None:
        raise CannotPlan(f"max_batchsize is tianshou's; {library} has none, found {max_batchsize!r}")
    sizes = {"rollout": rollout, "batch_size": batch_size, "max_batchsize": max_batchsize, "envs": envs}
    for name, size in sizes.items():
        if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1):
            raise CannotPlan(f"{name} must be a whole number, at least 1; found {size!r}")
    for name, network in {"actor": actor, "critic": critic}.items():
        if not isinstance(network, torch.nn.Module) and (name == "actor" or library != "sb3-ppo"):
            raise CannotPlan(f"{name} must be a torch.nn.Module; found {type(network).__name__}")
    obs_space = getattr(actor, "observation_space", None) if obs_space is None else obs_space
    act_space = getattr(actor, "action_space", None) if act_space is None else act_space
    if not isinstance(obs_space, spaces.Box):
        raise CannotPlan(f"obs_space must be a gymnasium Box; found {obs_space!r}")
    if not isinstance(act_space, spaces.Box | spaces.Discrete):
        raise CannotPlan(f"act_space must be a gymnasium Box or Discrete; found {act_space!r}")

    networks = {"policy": actor} if library == "sb3-ppo" else {"actor": actor, "critic": critic}
    if is_tianshou:
        networks["dist_fn"] = dist_fn
    make = partial(
        LIBRARIES[library],
        obs_space=obs_space,
        act_space=act_space,
        optimizer=_optimizer(optimizer, device),
        dtype=dtype,
        **networks,
    )
    try:
        operators = OperatorMemory()
        if _weights(actor, critic) * REHEARSAL_COPIES < psutil.virtual_memory().available:
            machine = resolve_device("auto")
            stages = make(Rehearsal(machine))
            operators.learn(lambda rows: stages.update(rows, rows), machine)
            del stages
        stages = make(DryRun(copied_to_card=device == "cuda", operators=operators))
        peaks = _peaks(stages, rollout, max_batchsize, batch_size, envs)
    except Exception as error:
        raise CannotPlan(
            f"the networks could not be run on observations of shape {obs_space.shape} ({obs_space.dtype}) and actions "
            f"of {act_space}: {type(error).__name__}: {error}"
        ) from error
    tensors = {name: int(peak[0]) for name, peak in peaks.items()}
    needed = {name: _with_reserve(peak) for name, peak in peaks.items()}
    margins = {name: needed[name] - tensors[name] for name in peaks} if operators.is_known else {}
    return Plan(tensors, margins, rollout, max_batchsize, batch_size, device_memory_gib, stages, envs)


def _peaks(stages, rollout, max_batchsize, batch_size, envs) -> dict[str, np.ndarray]:
    peaks = {"collect": stages.collect(envs)}
    if stages.preprocess:
        peaks["preprocess"] = stages.preprocess(rollout, min(max_batchsize or rollout, rollout))
    return peaks | {"learn": stages.learn(rollout, min(batch_size, rollout))}


def _with_reserve(peaks: np.ndarray) -> int:
    """Bytes that a stage needs, from its peaks without and with operators' own memory."""
    return int(peaks[1]) + int(RESERVE * peaks[1])


def _optimizer(optimizer, device):
    """What makes the optimizer, working as it does on that device."""
    takes_foreach = "foreach" in inspect.signature(optimizer).parameters
    return partial(optimizer, foreach=device == "cuda") if takes_foreach else optimizer


def _weights(*networks) -> int:
    tensors = (tensor for net in networks if net is not None for tensor in (*net.parameters(), *net.buffers()))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _largest(peak: Callable[[int], int], limit: int, most: int) -> int:
    """The largest size up to `most` whose peak is within the limit, for a peak that grows with it; 0 for none.

    Peaks grow nearly in a straight line, so the next size tried is where the line between the last two meets the limit;
    every third one halves what is left, whatever the line says.
    """
    low, high = 1, most
    if (at_high := peak(high)) <= limit:
        return high
    if (at_low := peak(low)) > limit:
        return 0
    tries = 0
    while high - low > 1:
        tries += 1
        share = (limit - at_low) / (at_high - at_low) if tries % 3 else 0.5
        size = min(max(low + int((high - low) * share), low + 1), high - 1)
        if (found := peak(size)) <= limit:
            low, at_low = size, found
        else:
            high, at_high = size, found
    return low
