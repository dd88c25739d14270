"""A rule for tianshou 2.x's search for NaN in the replay buffer."""

from rlrepro.doctor.edits import after, imported, stands_alone
from rlrepro.doctor.finding import rule

SEARCHES = ">=2.0,<=2.0.1"  # 2.0.1 is the newest release that was checked
TRAINERS = ("OffPolicyTrainerParams", "OffPolicyTrainingConfig")
BUFFERS = ("ReplayBuffer", "VectorReplayBuffer", "PrioritizedReplayBuffer", "PrioritizedVectorReplayBuffer")
SMALL = 10_000  # transitions up to which a search takes milliseconds


def _incremental(module, _):
    """Below the first collector that is assigned to a variable."""
    new = imported(module, "from rlrepro.fixes import incremental_nan_check", beside="tianshou")
    for call in module.calls("tianshou", "Collector"):
        if new is not None and module.variable(call) and stands_alone(module, module.parents[call]):
            return [*new, after(module, module.parents[call], "incremental_nan_check()")]
    return []


@rule(
    "TS005",
    "after each collect, tianshou looks for NaN in the whole replay buffer",
    words=("OffPolicyTrain",),
    fix="Before training, add: from rlrepro.fixes import incremental_nan_check; incremental_nan_check()",
    chapter="08_nan_scan",
    claims=("NS1", "NS2"),
    autofix=_incremental,
)
def whole_buffer(module, project):
    """In tianshou 2.0.0 and 2.0.1, the trainer copies every stored transition after each collect to look for NaN in it,
    so training slows down as the buffer fills. `raise_on_nan_in_buffer` does not prevent it."""
    reason = project.versions.all_in(module, "tianshou", SEARCHES)
    if not reason or "incremental_nan_check" in module.text:
        return
    calls = module.calls("tianshou", *BUFFERS)
    sizes = [module.value(call.args[0] if call.args else _size(module, call)) for call in calls]
    all_known = bool(sizes) and all(isinstance(size, int) for size in sizes)
    confidence = "medium" if not all_known else "high" if max(sizes) > SMALL else "low"
    for call in module.calls("tianshou", *TRAINERS):
        yield call, f"after each collect, every stored transition is searched for NaN ({reason})", confidence


def _size(module, call):
    return module.argument(call, "size") or module.argument(call, "total_size")
