"""Rules for training runs, for problems that the newest release of a library still has."""

from collections.abc import Iterator

from rlrepro.doctor.finding import Finding, finding_at, rule
from rlrepro.doctor.live.notes import Notes, Spent
from rlrepro.doctor.live.progress import Progress
from rlrepro.doctor.live.spent import NAN_SEARCH, WAIT
from rlrepro.lab.units import format_value

LIVE = {"words": (), "live": True}
SHARE = 0.1  # of the training time from which a search or a wait matters
MIN_CALLS = 10  # with fewer, a search may be the project's own, and a wait may be part of the startup
AWAKE = 0.5  # of the waiting time


@rule(
    "RUN008",
    "the replay buffer is searched for NaN again and again",
    fix="Before training, add: from rlrepro.fixes import incremental_nan_check; incremental_nan_check()",
    chapter="08_nan_scan",
    claims=("NS1", "NS2"),
    **LIVE,
)
def nan_search(notes: Notes) -> Iterator[Finding]:
    """After each collect, tianshou 2.0.0 and 2.0.1 look for NaN in all stored transitions, so training slows down as
    the buffer fills."""
    if (search := _spent(notes, NAN_SEARCH)) is not None:
        message = (
            f"{search.calls:,} searches for NaN, of up to {search.most:,} stored transitions each, took "
            f"{format_value(search.seconds, 's')}, in {search.place}"
        )
        yield finding_at("RUN008", search.own or search.place, message)


@rule(
    "RUN009",
    "a parent process keeps a core busy while it waits",
    fix="from rlrepro.fixes import PatientParallelEnv as ParallelEnv",
    chapter="09_parallel_env",
    claims=("PE1", "PE3"),
    **LIVE,
)
def parallel_env(notes: Notes) -> Iterator[Finding]:
    """In torchrl 0.7.1 to 0.10.1, and again from 0.12.0 to 0.14.1, the parent of a ParallelEnv polls its workers in a
    loop that never sleeps. If environments or other training runs need that core, everything takes longer."""
    wait = _spent(notes, WAIT)
    if wait is not None and wait.awake_seconds >= AWAKE * wait.seconds:
        awake, total = (format_value(seconds, "s") for seconds in (wait.awake_seconds, wait.seconds))
        yield finding_at(
            "RUN009",
            wait.own or wait.place,
            f"the parent waited {total} for its workers, {awake} of that without sleeping",
        )


@rule(
    "RUN010",
    "a value network gets the whole train batch at once, with gradients",
    fix="Import ChunkedPPOTorchLearner from rlrepro.fixes, and call "
    "config.learners(learner_class=ChunkedPPOTorchLearner)",
    chapter="10_rllib_value_pass",
    claims=("RL1", "RL5"),
    **LIVE,
)
def whole_train_batch(notes: Notes) -> Iterator[Finding]:
    """Before the first minibatch, RLlib computes the values of the whole train batch in one call and records gradients
    that nothing uses: memory grows with `train_batch_size_per_learner`, and `minibatch_size` does not bound it."""
    values, size = notes.passes.get("with gradients for values"), notes.sizes.get("minibatch_size")
    if values is not None and values.rows > (size or 0):
        limit = f", against minibatch_size {size:,}" if size else ""
        yield finding_at(
            "RUN010",
            values.own or values.place,
            f"a network got {values.rows:,} timesteps at once in {values.place}{limit}",
        )


def _spent(notes: Notes, name: str) -> Spent | None:
    """The time that a method took, if it is a relevant share of the training time without the longest call, which may
    be the only one that has anything to do."""
    spent = notes.spent.get(name)
    if spent is None or spent.calls < MIN_CALLS:
        return None
    progress = Progress.of(notes)
    return spent if spent.seconds - spent.longest >= SHARE * progress.seconds * progress.watched else None
