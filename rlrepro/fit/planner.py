"""plan(actor, critic, ...): what an update of a library's algorithm needs on a GPU."""

import inspect
from collections.abc import Callable
from functools import partial

import torch
from gymnasium import spaces

from rlrepro.fit.calibration import CalibrationRun
from rlrepro.fit.dry_run import DryRun
from rlrepro.fit.memory_plan import CannotPlan, Plan, check_size
from rlrepro.fit.operators import OperatorMemory
from rlrepro.fit.sb3 import SB3Stages
from rlrepro.fit.tianshou import TianshouStages
from rlrepro.fit.torchrl import TorchRLStages
from rlrepro.fit.update_planner import UpdatePlanner
from rlrepro.fit.zero_memory_tensors import ONE_AT_A_TIME
from rlrepro.lab.machine import resolve_device

LIBRARIES = {
    "tianshou-ppo": partial(TianshouStages, algorithm="PPO"),
    "tianshou-a2c": partial(TianshouStages, algorithm="A2C"),
    "sb3-ppo": SB3Stages,
    "torchrl-ppo": TorchRLStages,
}
A2C_OPTIMIZER = {"alpha", "eps", "weight_decay"}  # the arguments that identify a policy of SB3's A2C
CALLS = {
    "tianshou": (
        "tianshou calls actor(obs, state, info) and critic(obs) with NumPy arrays (torch.as_tensor takes them). The "
        "actor returns (what dist_fn takes, state): logits for a Discrete space, (mean, scale) for a Box; the critic "
        "returns (rows, 1)"
    ),
    "sb3": "the policy is run as model.train() runs it",
    "torchrl": "the actor must be made with return_log_prob=True; both read the observation under their in_keys",
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
    optimizer: type[torch.optim.Optimizer] | None = None,
    dtype: torch.dtype | None = None,
    dist_fn: Callable | None = None,
    envs: int = 1,
    device_memory_gib: float | None = None,
    device: str = "cuda",
) -> Plan:
    """Plan one update of a library's algorithm for these networks. The library's own code runs on tensors that have
    shapes but take no memory, so a laptop can plan for any GPU. A few rows are run for real, to measure what operators
    need on this machine.

    - "tianshou-ppo", "tianshou-a2c": actor(obs, state, info), which returns (parameters, state), and critic(obs)
    - "sb3-ppo": the policy (model.policy), and None
    - "torchrl-ppo": a ProbabilisticActor with return_log_prob=True, and a ValueOperator

    tianshou's parameters are what `dist_fn` takes, and its critic returns (rows, 1). Networks are copied, not changed.
    Build networks that are too large for this machine under `torch.device("meta")`: nothing is run then, so the plan
    has no margins. Without a GPU, what operators need on one is estimated: see the modules `gpu_*`. For the
    gradients of convolutions, cuDNN may need more; a plan made on the GPU measures that.

    Args:
        obs_space, act_space: optional if the actor has `observation_space` and `action_space`
        rollout: transitions per update
        batch_size: samples per gradient step
        max_batchsize: samples per forward pass without gradients (tianshou only; 256 by default)
        library: one of `LIBRARIES`
        optimizer: Adam by default, or the optimizer of an SB3 policy
        dtype: another precision for the networks
        dist_fn: by default what tianshou's examples use: Categorical of logits, or an independent Normal of a pair
        envs: environments that are stepped at once
        device: "cuda", where observations are copied to the GPU and optimizers process all parameters at once, or
            "cpu", where neither happens
        device_memory_gib: memory of the GPU, for `plan.fits()`

    Raises CannotPlan, naming the argument, for sizes that are not positive, an unsupported space, a network that can't
    take the observations, and code that can't be traced without computing it.
    """
    _check(library, actor, critic, dist_fn, optimizer, dtype)
    device = str(device).partition(":")[0]
    if device not in ("cuda", "cpu"):
        raise CannotPlan(f"device must be cuda or cpu; found {device!r}")
    is_tianshou, is_sb3 = library.startswith("tianshou"), library == "sb3-ppo"
    if is_tianshou and max_batchsize is None:
        max_batchsize = 256
    for name, size in {"rollout": rollout, "batch_size": batch_size, "envs": envs}.items():
        check_size(name, size)  # before any network is run
    obs_space = getattr(actor, "observation_space", None) if obs_space is None else obs_space
    act_space = getattr(actor, "action_space", None) if act_space is None else act_space
    if not isinstance(obs_space, spaces.Box):
        hint = "\nfor other spaces use rlrepro.fit.plan_model(model)" if is_sb3 else ""
        raise CannotPlan(f"obs_space must be a gymnasium Box; found {obs_space!r}{hint}")
    if not isinstance(act_space, spaces.Box | spaces.Discrete):
        raise CannotPlan(f"act_space must be a gymnasium Box or Discrete; found {act_space!r}")
    optimizer = optimizer or (type(actor.optimizer) if is_sb3 else torch.optim.Adam)
    networks = {"policy": actor} if is_sb3 else {"actor": actor, "critic": critic}
    make_stages = partial(
        LIBRARIES[library],
        obs_space=obs_space,
        act_space=act_space,
        optimizer=_with_foreach(device, optimizer),
        dtype=dtype,
        **networks,
        **({"dist_fn": dist_fn} if is_tianshou else {}),
    )
    with ONE_AT_A_TIME:
        try:
            operators = OperatorMemory()
            can_run = not any(weight.is_meta for net in networks.values() for weight in net.parameters())
            if can_run:
                calibration = CalibrationRun(_calibration_device(device, networks.values()))
                operators.measure(make_stages(calibration).update, calibration, device)
            stages = make_stages(DryRun(copied_to_card=device == "cuda", operators=operators))
        except Exception as error:
            raise CannotPlan(
                f"the networks could not be run on observations of shape {obs_space.shape} ({obs_space.dtype}) and "
                f"actions of {act_space}: {type(error).__name__}: {error}\n{CALLS[library.partition('-')[0]]}"
            ) from error
        planner = UpdatePlanner(stages, has_margins=can_run)
        return planner.plan(rollout, max_batchsize, batch_size, envs, device_memory_gib)


def _check(library, actor, critic, dist_fn, optimizer, dtype) -> None:
    """Raise CannotPlan for networks that the library can't use, and for arguments that it does not have."""
    if library not in list(LIBRARIES):
        raise CannotPlan(f"library must be one of {', '.join(LIBRARIES)}; found {library!r}")
    is_sb3 = library == "sb3-ppo"
    if isinstance(getattr(actor, "policy", None), torch.nn.Module) and hasattr(actor, "learn"):
        raise CannotPlan("actor is a model: use rlrepro.fit.plan_model(model), or pass model.policy and its library")
    if not is_sb3 and critic is None and hasattr(actor, "action_dist"):
        raise CannotPlan(f"actor is a policy of Stable-Baselines3: did you mean library='sb3-ppo'? found {library!r}")
    if is_sb3 and getattr(actor, "optimizer_kwargs", {}).keys() == A2C_OPTIMIZER:
        raise CannotPlan("actor is a policy of A2C, which is not updated like PPO's: use rlrepro.fit.plan_model(model)")
    networks = {"actor": actor} if is_sb3 else {"actor": actor, "critic": critic}
    for name, network in networks.items():
        if not isinstance(network, torch.nn.Module):
            raise CannotPlan(f"{name} must be a torch.nn.Module; found {type(network).__name__}")
        if any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()):
            raise CannotPlan(f"{name} is scripted, which can't be traced; pass the module that was scripted")
        if library == "torchrl-ppo" and not hasattr(network, "in_keys"):
            raise CannotPlan(f"{name} must be a TensorDict module for {library}; found {type(network).__name__}")
    if is_sb3 and not hasattr(actor, "action_dist"):
        raise CannotPlan(f"actor must be an ActorCriticPolicy such as model.policy; found {type(actor).__name__}")
    if is_sb3 and critic is not None:
        raise CannotPlan("critic must be left out for sb3-ppo, whose policy holds both")
    if dist_fn is not None and not library.startswith("tianshou"):
        raise CannotPlan(f"dist_fn is for tianshou only: leave it out for {library}")
    if optimizer is not None and not callable(optimizer):
        raise CannotPlan(f"optimizer must be a class such as torch.optim.Adam; found {optimizer!r}")
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise CannotPlan(f"dtype must be a torch.dtype such as torch.bfloat16; found {dtype!r}")


def _calibration_device(device: str, networks) -> torch.device:
    """The GPU, if the plan is for one and there is one. On a GPU, recurrent layers and attention use operators that a
    dry run never sees, so networks with such layers are measured on the CPU."""
    modules = (module for network in networks for module in network.modules())
    has_other_operators = any(isinstance(module, torch.nn.RNNBase | torch.nn.MultiheadAttention) for module in modules)
    return resolve_device("cpu" if device == "cpu" or has_other_operators else "auto")


def _with_foreach(device: str, optimizer: Callable) -> Callable:
    """The optimizer with that device's default for `foreach`, unless the caller chose an implementation."""
    is_chosen = {"foreach", "fused"} & getattr(optimizer, "keywords", {}).keys()
    takes_foreach = "foreach" in inspect.signature(optimizer).parameters
    return partial(optimizer, foreach=device == "cuda") if takes_foreach and not is_chosen else optimizer
