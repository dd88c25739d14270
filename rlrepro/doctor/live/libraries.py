"""What is watched in each library, by the module that its users import it from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlrepro.doctor.live import timing
from rlrepro.doctor.live.buffers import Origins, Reader, probe_sample
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.forwards import VALUES, probe_convolution, probe_linear
from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.rests import Rests
from rlrepro.doctor.live.spent import NAN_SEARCH, WAIT, probe_spent
from rlrepro.doctor.live.stages import Stages


def install(patches: Patches, notes: Notes) -> Callable[[], None]:
    """Watch each library that is imported, now or later. Returns a function to call in a forked process."""
    clocks = Clocks(notes, [])
    stages = Stages(notes, clocks)
    notes._clocks = clocks
    rests = Rests(patches, clocks)
    timing.install(patches, clocks, rests)

    def layers(torch):
        patches.replace(torch.nn.Linear, "forward", probe_linear(notes, stages.running))
        for layer in (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d):
            patches.replace(layer, "forward", probe_convolution(notes, stages.running))

    patches.when_imported("torch", layers)
    for watched in STAGES:
        patches.when_imported(watched.module, _methods(patches, watched, stages.probe(watched.name, watched.sizes)))
    for watched, count in SPENT:
        patches.when_imported(watched.module, _methods(patches, watched, probe_spent(notes, watched.name, count)))
    origins = Origins()
    for module, cls, reader in BUFFERS:
        for method, probe in (("__init__", origins.probe), ("sample", probe_sample(notes, reader, clocks, origins))):
            patches.when_imported(module, _methods(patches, Method(module, (cls,), method, ""), probe))

    def renew():
        stages.running.clear()
        clocks.renew()
        rests.renew()

    return renew


def _methods(patches, watched: "Method", make):
    def replace_in(module):
        for name in watched.classes:
            if cls := getattr(module, name, None):
                patches.methods(cls, watched.method, make)

    return replace_in


@dataclass(frozen=True)
class Method:
    """A method of some classes of a module and of their subclasses; `sizes` returns the configured sizes."""

    module: str
    classes: tuple[str, ...]
    method: str
    name: str
    sizes: object = None


def _attributes(*names: str):
    return lambda self, *args, **kwargs: {name: getattr(self, name, None) for name in names}


def _tianshou_sizes(self, batch=None, batch_size=None, *args, **kwargs) -> dict:
    return {"max_batchsize": getattr(self, "max_batchsize", getattr(self, "_batch", None)), "batch_size": batch_size}


def _tianshou_max_batchsize(self, *args, **kwargs) -> dict:
    return {"max_batchsize": getattr(self, "max_batchsize", getattr(self, "_batch", None))}


def _rllib_sizes(self, *args, minibatch_size=None, **kwargs) -> dict:
    return {"minibatch_size": minibatch_size or self.config.minibatch_size}


SB3, BASE, POLICY, ALGORITHM = "stable_baselines3.common", ("BaseAlgorithm",), ("BasePolicy",), ("Algorithm",)
LEARNER = "pearl.policy_learners.policy_learner"
STAGES = (
    Method(f"{SB3}.base_class", BASE, "train", "train", _attributes("batch_size", "n_steps")),
    Method(f"{SB3}.base_class", BASE, "collect_rollouts", "collect"),
    Method("tianshou.policy", POLICY, "process_fn", "preprocess", _tianshou_max_batchsize),
    Method("tianshou.policy", POLICY, "learn", "learn", _tianshou_sizes),
    Method("tianshou.algorithm", ALGORITHM, "_preprocess_batch", "preprocess", _tianshou_max_batchsize),
    Method("tianshou.algorithm", ALGORITHM, "_update_with_batch", "learn", _tianshou_sizes),
    Method("tianshou.data", ("Collector", "BaseCollector"), "collect", "collect"),
    Method("torchrl.collectors", ("SyncDataCollector", "Collector", "BaseCollector"), "rollout", "collect"),
    Method("torchrl.objectives.value", ("ValueEstimatorBase",), "forward", "advantages"),
    Method("torchrl.objectives", ("LossModule",), "forward", "loss"),
    Method("ray.rllib.core.learner.learner", ("Learner",), "update", "learn", _rllib_sizes),
    Method("ray.rllib.connectors.learner", ("GeneralAdvantageEstimation",), "__call__", VALUES),
    Method(LEARNER, ("PolicyLearner",), "act", "collect"),
    Method(LEARNER, ("PolicyLearner",), "preprocess_batch", "preprocess"),
    Method(LEARNER, ("PolicyLearner",), "learn_batch", "learn", _attributes("batch_size")),
)


SPENT = (  # methods whose time is noted, and a function that counts what they process
    (Method("tianshou.data", ("ReplayBuffer",), "hasnull", NAN_SEARCH), len),
    (Method("torchrl.envs", ("ParallelEnv",), "_wait_for_workers", WAIT), None),
)


def _sb3_values(buffer, rows) -> Iterator:
    for key, value in vars(buffer).items():
        for name, array in value.items() if isinstance(value, dict) else ((None, value),):
            if getattr(array, "ndim", 0) >= 2 and array.shape[:2] == (buffer.buffer_size, buffer.n_envs):
                yield key if name is None else f"{key}.{name}", array[[row // buffer.n_envs for row in rows], 0]


def _tianshou_values(buffer, rows) -> Iterator:
    yield from _leaves(buffer._meta, rows, "")


def _leaves(batch, rows, prefix) -> Iterator:
    for key, value in batch.__dict__.items():
        if hasattr(value, "__dict__") and not hasattr(value, "shape"):
            yield from _leaves(value, rows, f"{prefix}{key}.")
        elif getattr(value, "ndim", 0) and len(value) > max(rows):
            yield f"{prefix}{key}", value[rows]


def _torchrl_values(buffer, rows) -> Iterator:
    """Values as stored; a sample would have passed through the transforms."""
    stored = buffer._storage.get(rows) if buffer._storage.ndim == 1 else buffer._storage[rows]
    stored = stored if hasattr(stored, "items") else {"data": stored}
    leaves = {"include_nested": True, "leaves_only": True} if hasattr(stored, "batch_size") else {}
    for key, value in stored.items(**leaves):
        yield key if isinstance(key, str) else ".".join(key), value


def _torchrl_name(buffer) -> str:
    return f"{type(buffer).__name__} with {type(buffer._sampler).__name__}"


def _pearl_values(buffer, rows) -> Iterator:
    import torch

    transitions = [buffer.memory[row] for row in rows]
    for key, value in vars(transitions[0]).items():
        if isinstance(value, torch.Tensor):
            yield key, torch.stack([getattr(transition, key) for transition in transitions])


BUFFERS = (
    (f"{SB3}.buffers", "BaseBuffer", Reader(lambda buffer: buffer.size() * buffer.n_envs, _sb3_values)),
    ("tianshou.data", "ReplayBuffer", Reader(len, _tianshou_values)),
    ("torchrl.data", "ReplayBuffer", Reader(len, _torchrl_values, _torchrl_name)),
    ("pearl.replay_buffers", "ReplayBuffer", Reader(len, _pearl_values)),
)
