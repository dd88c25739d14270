"""Rules for tianshou's two batch sizes, and for its releases."""

from rlrepro.doctor.ast_index import UNKNOWN
from rlrepro.doctor.edits import after, imported, is_imported, replaced, stands_alone, with_argument
from rlrepro.doctor.finding import rule

POLICIES = ("PPOPolicy", "A2CPolicy", "PPO", "A2C", "NPGPolicy", "TRPOPolicy", "GAILPolicy", "NPG", "TRPO", "GAIL")
TRAINERS = ("OnpolicyTrainer", "onpolicy_trainer", "OnPolicyTrainerParams")
DEFAULT = 256  # of max_batchsize, in every release
BROKEN = ">=0.4.11,<1.1"
KEEPS_GRADIENTS = ">=1.2,<=2.0.1"  # 2.0.1 is the newest release that was checked


def _chunked(module, call):
    new = imported(module, "from rlrepro.fixes import ChunkedPPOPolicy", beside="tianshou")
    return [] if new is None else [replaced(call.func, "ChunkedPPOPolicy"), *new]


def _same_size(module, call):
    """Only if there is exactly one trainer, so that it is clear whose batch size applies."""
    if len(list(module.calls("tianshou", *TRAINERS))) != 1:
        return []
    return with_argument(module, call, "max_batchsize", str(_largest_batch(module)))


def _without_gradients(module, _):
    """For each collector that is assigned to a variable on a separate line."""
    new = [] if is_imported(module, "torch") else imported(module, "import torch", beside="tianshou")
    wrapped = [
        after(module, module.parents[call], f"{name}.collect = torch.no_grad()({name}.collect)")
        for call in module.calls("tianshou", "Collector")
        if (name := module.variable(call)) and stands_alone(module, module.parents[call])
    ]
    return [*new, *wrapped] if wrapped and new is not None else []


@rule(
    "TS001",
    "PPO computes logp_old on the whole rollout at once",
    words=("tianshou",),
    fix="Install tianshou 1.1.0 or later. If you can't, use rlrepro.fixes.ChunkedPPOPolicy instead of PPOPolicy.",
    chapter="02_logp_old_oom",
    claims=("LO1",),
    autofix=_chunked,
)
def whole_rollout(module, project):
    """From tianshou 0.4.11 to 1.0.0, PPO's `process_fn` passes the whole rollout to the actor at once and ignores
    `max_batchsize`, so that memory grows in proportion to the rollout."""
    versions = project.versions
    if not versions.any_in(module, "tianshou", BROKEN):
        return
    reason = versions.all_in(module, "tianshou", BROKEN)
    for call in module.calls("tianshou", "PPOPolicy"):
        if reason:
            yield call, f"tianshou 0.4.11 to 1.0.0 computes logp_old on the whole rollout at once ({reason})", "high"
        else:
            yield call, "tianshou 0.4.11 to 1.0.0 computes logp_old on the whole rollout: check your release", "low"


@rule(
    "TS002",
    "max_batchsize has its default, although batch_size is larger",
    words=("tianshou",),
    fix="Set max_batchsize on the algorithm. If batch_size samples fit with gradients, they also fit without.",
    chapter="01_two_batch_sizes",
    autofix=_same_size,
    fix_when_low=True,
)
def forgotten_size(module, project):
    """`batch_size` limits the gradient steps, `max_batchsize` the passes before them. If you raise `batch_size` because
    the GPU has room, you usually want to raise `max_batchsize` as well: passes of 256 samples are then needlessly
    slow."""
    largest = _largest_batch(module)
    for call in module.calls("tianshou", *POLICIES):
        if largest > DEFAULT and not module.spreads(call) and module.argument(call, "max_batchsize") is None:
            message = f"max_batchsize has its default of {DEFAULT}, but batch_size is {largest:,}"
            yield call, message, "low"


@rule(
    "TS003",
    "an invalid batch size",
    words=("tianshou",),
    fix="Pass a number above 0. If you do want everything at once, pass the length of the rollout.",
    chapter="01_two_batch_sizes",
    claims=("TB5",),
)
def no_size(module, project):
    """`max_batchsize=None` and `0` fail in the first update. `batch_size=None` and `0` silently mean the whole
    rollout at once, and you may get there by lowering the size step by step."""
    for call in module.calls("tianshou", *POLICIES):
        size = _size(module, call, "max_batchsize")
        if size is None or (size is not UNKNOWN and size == 0):
            yield call, f"max_batchsize={size} fails in the first update", "high"
    for call in module.calls("tianshou", *TRAINERS):
        size = _size(module, call, "batch_size")
        if size is None or (size is not UNKNOWN and size == 0):
            yield call, f"batch_size={size} means the whole rollout at once in each gradient step", "high"


@rule(
    "TS004",
    "collecting keeps the autograd graph",
    words=("tianshou",),
    fix="Before training, add: collector.collect = torch.no_grad()(collector.collect)",
    chapter="01_two_batch_sizes",
    autofix=_without_gradients,
)
def collecting(module, project):
    """In tianshou 1.2.0 to 2.0.1, the collector runs the actor with gradients, so the activations of each step are kept
    for a backward pass that never happens."""
    reason = project.versions.all_in(module, "tianshou", KEEPS_GRADIENTS)
    if not reason or "no_grad" in module.text:
        return
    for call in list(module.calls("tianshou", "Collector"))[:1]:  # the others need the same line
        yield call, f"tianshou 1.2.0 to 2.0.1 collects with gradients that nothing uses ({reason})", "medium"


def _largest_batch(module) -> int:
    sizes = [_size(module, call, "batch_size") for call in module.calls("tianshou", *TRAINERS)]
    return max((size for size in sizes if isinstance(size, int)), default=0)


def _size(module, call, name):
    return module.value(module.argument(call, name))
