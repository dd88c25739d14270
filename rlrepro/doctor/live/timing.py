"""Probes that split the time: environments, modules, backward passes and optimizers."""

from importlib import import_module
from time import perf_counter

from rlrepro.doctor.live.activity import ENVIRONMENT, LEARNING, LEARNS, SAMPLING, STEPS
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.rests import Rests

ENVIRONMENTS = (  # a module, and a class in it with `step` and `reset`
    ("gymnasium", "Env"),
    ("gymnasium.vector", "VectorEnv"),
    ("gym", "Env"),
    ("stable_baselines3.common.vec_env", "VecEnv"),
    ("tianshou.env", "BaseVectorEnv"),
    ("torchrl.envs", "EnvBase"),
)

NESTED = 256  # calls within others, with none outside, after which a class is no longer probed


def install(patches: Patches, clocks: Clocks, rests: Rests) -> None:
    """Time each library that is imported, now or later."""

    def layers(torch):
        patches.replace(torch.nn.Module, "__call__", probe_module(clocks, patches))
        for name in ("backward", "grad"):
            patches.replace(torch.autograd, name, probe_backward(clocks))
        optimizers = import_module("torch.optim.optimizer")  # torch.optim itself does not expose it
        before, after = optimizer_hooks(clocks, rests)
        for handle in (
            optimizers.register_optimizer_step_pre_hook(before),
            optimizers.register_optimizer_step_post_hook(after),
        ):
            patches.at_undo(handle.remove)

    def environments(name):
        def replace_in(module):
            for method in ("step", "reset"):
                probe = probe_environment(clocks, patches, rests, counted=method == "step")
                patches.methods(getattr(module, name), method, probe)

        return replace_in

    patches.when_imported("torch", layers)
    for module, name in ENVIRONMENTS:
        patches.when_imported(module, environments(name))


def probe_module(clocks: Clocks, patches: Patches):
    """For the call of a module. The outermost one is a forward pass. A class that is only called within others, as
    layers are, soon loses its probe: probes that do nothing would cost more than all others together."""
    import torch

    compiling, enabled = torch.compiler.is_compiling, torch.is_grad_enabled
    outermost, nested = set(), {}  # classes, and how often each was called within another

    def make(call):
        def called(self, *args, **kwargs):
            if compiling():  # first: torch.compile guards on everything that a compiled function reads
                return call(self, *args, **kwargs)
            clock, cls = clocks.clock, type(self)
            if clock.inside:
                nested[cls] = nested.get(cls, 0) + 1
                if nested[cls] == NESTED and not any(issubclass(outer, cls) for outer in outermost):
                    patches.shadow(cls, "__call__", call)
                return call(self, *args, **kwargs)
            outermost.add(cls)
            clock.inside = True
            clock.enter(perf_counter())
            try:
                return call(self, *args, **kwargs)
            finally:
                clock.inside = False
                clock.leave_pass(enabled())

        return called

    return make


def probe_environment(clocks: Clocks, patches: Patches, rests: Rests, *, counted: bool):
    """For the step or the reset of an environment and of its wrappers. Only the outermost call counts."""

    def make(step):
        nested = 0  # calls within another, until the first that is not

        def stepped(self, *args, **kwargs):
            nonlocal nested
            clock = clocks.clock
            if clock.inside:
                nested += 1
                if nested == NESTED:
                    patches.put_back(stepped)
                return step(self, *args, **kwargs)
            nested = NESTED
            clock.inside = True
            if not rests.resting:
                clock.enter(perf_counter(), learning=False)
            try:
                return step(self, *args, **kwargs)
            finally:
                clock.inside, clock.updating = False, False
                if counted:
                    clock.activity.counts[STEPS] += copies(self)
                if rests.resting:
                    rests.tick(clock)
                else:
                    clock.activity.seconds[ENVIRONMENT] += clock.leave()

        return stepped

    return make


def copies(environment) -> int:
    """How many environments step at once."""
    for name in ("num_envs", "env_num"):
        if isinstance(number := getattr(environment, name, None), int):
            return number
    shape = getattr(environment, "batch_size", None)
    return shape.numel() if hasattr(shape, "numel") else 1


def probe_backward(clocks: Clocks):
    """For torch.autograd.grad, and for torch.autograd.backward, which Tensor.backward calls."""

    def make(backward):
        def learned(*args, **kwargs):
            clock = clocks.clock
            if clock.inside:
                return backward(*args, **kwargs)
            clock.enter(perf_counter(), learning=True)
            clock.inside = clock.updating = True
            try:
                return backward(*args, **kwargs)
            finally:
                clock.inside = False
                clock.activity.seconds[LEARNING] += clock.leave()

        return learned

    return make


def optimizer_hooks(clocks: Clocks, rests: Rests):
    """Hooks that run before and after a step of any optimizer; after a step that raises, the second does not run."""
    import torch

    compiling = torch.compiler.is_compiling

    def before(optimizer, args, kwargs):
        if compiling() or rests.resting:
            return
        clock = clocks.clock
        if not clock.inside:
            clock.enter(perf_counter(), learning=True)
            clock.updating = clock.open = True  # what follows, until `after`, is learning

    def after(optimizer, args, kwargs):
        if compiling():
            return
        clock = clocks.clock
        clock.activity.counts[LEARNS] += 1
        if not rests.resting:
            if clock.inside:
                return
            clock.enter(perf_counter())
            clock.leave()
            clock.decide(learning=True)
        rests.after_step(clock)

    return before, after


def timed_sample(clocks: Clocks, sample, *args, **kwargs):
    """Call a buffer's `sample` and time it. Returns its result."""
    clock = clocks.clock
    if clock.inside:
        return sample(*args, **kwargs)
    clock.enter(perf_counter(), learning=None if clock.updating else False)
    clock.inside = clock.updating = True
    try:
        return sample(*args, **kwargs)
    finally:
        clock.inside = False
        clock.activity.seconds[SAMPLING] += clock.leave()
        clock.activity.counts["buffer samples"] += 1


def timed_learning(clocks: Clocks, method, *args, **kwargs):
    """Call a stage in which a library learns. Returns its result. All of its time is learning, except samples and
    environment steps."""
    clock = clocks.clock
    if not clock.inside:
        clock.enter(perf_counter(), learning=False)
        clock.leave()
    clock.learning += 1
    try:
        return method(*args, **kwargs)
    finally:
        if not clock.inside:
            clock.enter(perf_counter())
            clock.leave()
        clock.learning -= 1
        clock.updating = True
