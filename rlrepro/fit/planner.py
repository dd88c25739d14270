"""plan(actor, critic, ...): what an update of a library's algorithm needs on a card."""

import inspect
from collections.abc import Callable
from functools import partial

import torch
from gymnasium import spaces

from rlrepro.fit.dry_run import DryRun
from rlrepro.fit.operators import OperatorMemory
from rlrepro.fit.rehearsal import Rehearsal
from rlrepro.fit.result import CannotPlan, Plan
from rlrepro.fit.sb3 import SB3Stages
from rlrepro.fit.tianshou import TianshouStages
from rlrepro.fit.torchrl import TorchRLStages
from rlrepro.lab.machine import resolve_device

LIBRARIES = {
    "tianshou-ppo": partial(TianshouStages, algorithm="PPO"),
    "tianshou-a2c": partial(TianshouStages, algorithm="A2C"),
    "sb3-ppo": SB3Stages,
    "torchrl-ppo": TorchRLStages,
}


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
    build those that are too large for this machine under `torch.device("meta")`, then no rows are run and no margins
    known. `obs_space` and `act_space` may be left out where the actor has `observation_space` and
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
        if not any(weight.is_meta for net in (actor, critic) if net is not None for weight in net.parameters()):
            machine = resolve_device("auto")
            stages = make(Rehearsal(machine))
            operators.learn(lambda rows: stages.update(rows, rows), machine)
            del stages
        stages = make(DryRun(copied_to_card=device == "cuda", operators=operators))
        return Plan(rollout, max_batchsize, batch_size, envs, device_memory_gib, stages, operators.is_known)
    except CannotPlan:
        raise
    except Exception as error:
        raise CannotPlan(
            f"the networks could not be run on observations of shape {obs_space.shape} ({obs_space.dtype}) and actions "
            f"of {act_space}: {type(error).__name__}: {error}"
        ) from error


def _optimizer(optimizer, device):
    """What makes the optimizer, working as it does on that device."""
    takes_foreach = "foreach" in inspect.signature(optimizer).parameters
    return partial(optimizer, foreach=device == "cuda") if takes_foreach else optimizer
