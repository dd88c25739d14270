"""A rule for TorchRL's ParallelEnv."""

from rlrepro.doctor.edits import imported, replaced
from rlrepro.doctor.finding import rule

POLLS = ">=0.7.1,<=0.14.1,!=0.11.*"
POLLS_WITHOUT_BUFFERS = ">=0.8,<0.11"


def _patient(module, call):
    new = imported(module, "from rlrepro.fixes import PatientParallelEnv", beside="torchrl")
    return [] if new is None else [replaced(call.func, "PatientParallelEnv"), *new]


@rule(
    "TR006",
    "a ParallelEnv whose parent keeps a core busy while it waits",
    words=("ParallelEnv",),
    fix="from rlrepro.fixes import PatientParallelEnv as ParallelEnv",
    chapter="09_parallel_env",
    claims=("PE1", "PE3", "PE6"),
    autofix=_patient,
)
def polling_parent(module, project):
    """In torchrl 0.7.1 to 0.10.1, and again from 0.12.0 to 0.14.1, the parent polls its workers in a loop that never
    sleeps. If environments or other training runs need that core, everything takes longer. From 0.12.0 on, transitions
    also come one step late after `load_state_dict`."""
    for call in module.calls("torchrl", "ParallelEnv"):
        has_buffers = module.value(module.argument(call, "use_buffers")) is not False
        releases = POLLS if has_buffers else POLLS_WITHOUT_BUFFERS
        if reason := project.versions.all_in(module, "torchrl", releases):
            yield call, f"the parent keeps a core busy while environments step ({reason})", "medium"
