"""What the notes of a run say is wrong: the rules of a running training."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rlrepro.doctor.finding import Finding, rule
from rlrepro.doctor.live.notes import Notes, Pass, Place
from rlrepro.doctor.live.progress import Progress
from rlrepro.doctor.live.thread_stats import Crowd
from rlrepro.lab.units import format_value

OVERSUBSCRIBED_SHARE = 0.1  # of the run, from which too many threads are not an accident
TRAINING_SHARE, TRAINING_SECONDS = 0.25, 1.0  # or of the time, and so much of it, in which the processes train
TIMES_LARGER = 2  # than what is configured, from which a pass has not been cut by it: the last chunk may be merged
ANYWHERE = 8  # the same outside of a library's stage, where it may be for a test
REPEATED = 64  # rows with the same state
RANGE, GROWTH = 2.0, 0.4  # stored rows have to grow so much to see a trend, and the exponent from which it is one
SLOWER = 1.5  # and so many times longer a sample has to take
WIDE_BYTES = 1000  # of a key of a transition
SMALL_PASSES = 2  # times smaller than a gradient step's


def diagnose(notes: Notes, crowd: Crowd, script: str, folder: Path) -> list[Finding]:
    """The findings of a run, by what was noted in its processes and seen of their threads; paths are from a folder."""
    found = list(threads(notes, crowd, script))
    for check in (whole_rollout, small_passes, repeated_states, collecting, growing_samples, wide_transitions):
        found += check(notes)
    return sorted(replace(each, path=_below(Path(each.path), folder)) for each in found)


def _below(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


LIVE = {"words": (), "live": True}


@rule(
    "RUN001",
    "more threads than cores",
    fix="OMP_NUM_THREADS=1 before torch is imported, or torch.set_num_threads(1) first in each process, or "
    "rlrepro.fixes.train_many",
    chapter="04_parallel_training",
    claims=("PT1", "PT3"),
    **LIVE,
)
def threads(notes: Notes, crowd: Crowd, script: str) -> Iterator[Finding]:
    """Several processes each compute with a thread for every core. Threads that wait for each other stay on a core
    while they do, and take it from the one that they wait for."""
    trained = Progress.of(notes).seconds
    of_training = trained > TRAINING_SECONDS and crowd.oversubscribed_seconds > TRAINING_SHARE * trained
    if not of_training and crowd.oversubscribed_seconds <= OVERSUBSCRIBED_SHARE * crowd.seconds:
        return
    said = f"{crowd.runnable:.1f} threads of {crowd.busy_processes:.1f} processes wanted {crowd.cores} cores"
    if crowd.waited_seconds is not None:
        said += f"; all together they waited {format_value(crowd.waited_seconds, 's')} for one"
    yield _finding("RUN001", Place(script or "?", 1, ""), said)


@rule(
    "RUN002",
    "a whole rollout at once",
    fix="tianshou before 1.1.0: install 1.1.0, or use rlrepro.fixes.ChunkedPPOPolicy. Your own code: "
    "rlrepro.fixes.in_chunks(network, rows, size=minibatch)",
    chapter="02_logp_old_oom",
    claims=("LO1", "LO2"),
    **LIVE,
)
def whole_rollout(notes: Notes) -> Iterator[Finding]:
    """A network got far more rows in one pass than any size that is configured, or than it gets with gradients: its
    memory grows with the rollout."""
    whole, parts = notes.passes.get("without gradients"), notes.passes.get("with gradients")
    if whole is None:
        return
    times, confidence = (TIMES_LARGER, "high") if whole.stage else (ANYWHERE, "medium")
    sizes = {name: size for name, size in notes.sizes.items() if name in ("batch_size", "max_batchsize")}
    if parts is not None:
        sizes |= {"the largest pass with gradients": parts.rows}
    if sizes and whole.rows > times * max(sizes.values()):
        asked = " and ".join(f"{name} {size:,}" for name, size in sizes.items())
        said = f"{whole.rows:,} rows at once in {whole.place}, beside {asked}{_cost(notes, whole)}"
        yield _finding("RUN002", whole.own or whole.place, said, confidence)


@rule(
    "RUN003",
    "passes that are smaller than they need be",
    fix="Give the algorithm max_batchsize=batch_size: where so many rows fit with gradients, they fit without.",
    chapter="01_two_batch_sizes",
    claims=("TB1", "TB2"),
    **LIVE,
)
def small_passes(notes: Notes) -> Iterator[Finding]:
    """tianshou's `max_batchsize` bounds the passes without gradients, `batch_size` those with. Who raises the second
    because the card has room usually wants the first raised as well."""
    small, large = notes.sizes.get("max_batchsize"), notes.sizes.get("batch_size")
    parts = notes.passes.get("with gradients")
    if small and large and parts and min(large, parts.rows) >= SMALL_PASSES * small:
        said = f"{parts.rows:,} rows fit with gradients, and passes without them get max_batchsize {small:,}"
        yield _finding("RUN003", parts.own or parts.place, said)


@rule(
    "RUN004",
    "each state goes through the network with every action",
    fix="rlrepro.fixes.FactoredQ, or in Pearl SoftActorCritic(..., critic_network_type=rlrepro.fixes.PearlFactoredQ)",
    chapter="05_large_action_spaces",
    claims=("LA3",),
    **LIVE,
)
def repeated_states(notes: Notes) -> Iterator[Finding]:
    """The rows of a pass with gradients repeat each state for every action, and every layer keeps all of them."""
    large = notes.passes.get("with gradients")
    if large is not None and large.repeated >= REPEATED:
        said = f"{large.rows:,} rows, in which each state stands {large.repeated:,} times{_cost(notes, large)}"
        yield _finding("RUN004", large.own or large.place, said)


@rule(
    "RUN005",
    "collecting keeps gradients",
    fix="Before training: collector.collect = torch.no_grad()(collector.collect)",
    chapter="01_two_batch_sizes",
    **LIVE,
)
def collecting(notes: Notes) -> Iterator[Finding]:
    """Where an actor runs with gradients while a rollout is collected, every activation of a step is kept for a
    backward pass that never comes (tianshou 1.2.0 to 2.0.1)."""
    if notes.gradients_while_collecting is not None:
        said = "a network runs with gradients while the rollout is collected"
        yield _finding("RUN005", notes.gradients_while_collecting, said)


@rule(
    "RUN006",
    "a sample takes longer the more is stored",
    fix="torchrl's SliceSampler: cache_values=True in a buffer that is only read; else "
    "from rlrepro.fixes import IncrementalSliceSampler as SliceSampler",
    chapter="03_slice_sampler",
    claims=("SS9",),
    **LIVE,
)
def growing_samples(notes: Notes) -> Iterator[Finding]:
    """A sample of so many rows should take as long from a full buffer as from an empty one."""
    for name, buffer in notes.buffers.items():
        for batch, seconds in buffer.seconds.items():
            if (grown := trend(seconds)) is None:
                continue
            exponent, (few, soon), (many, late) = grown
            said = (
                f"{name}: a sample of {batch:,} rows took at least {format_value(soon, 's')} from {few:,} stored rows "
                f"and {format_value(late, 's')} from {many:,} (rows to the power {exponent:.2f}), in {buffer.place}"
            )
            yield _finding("RUN006", buffer.own or buffer.place, said)


@rule(
    "RUN007",
    "transitions hold more than they need",
    fix="one-hot in torchrl: the environment's categorical_action_encoding=True. Computed by a network: "
    "rollout.exclude(KEY) before it is stored. The same in each, as in Pearl: FactoredSAC with SharedActionBuffer",
    chapter="05_large_action_spaces",
    claims=("LA1", "LA2"),
    **LIVE,
)
def wide_transitions(notes: Notes) -> Iterator[Finding]:
    """One-hot vectors of large action spaces, what a network computed for every action and can compute again, and
    tables of actions that are the same in each transition."""
    for name, buffer in notes.buffers.items():
        wide = {
            key: buffer.bytes[key]
            for key, why in buffer.alike.items()
            if buffer.bytes[key] >= WIDE_BYTES and ("action" in key or why == "computed by a network")
        }
        if wide:
            parts = ", ".join(
                f"{key} {format_value(size, 'B')} ({buffer.alike[key]})" for key, size in sorted(wide.items())
            )
            total = format_value(sum(buffer.bytes.values()), "B")
            yield _finding("RUN007", buffer.own or buffer.place, f"{name}: of {total} a transition, {parts}")


def trend(seconds: dict[int, list[float]]) -> tuple[float, tuple[int, float], tuple[int, float]] | None:
    """(exponent of the growth, (fewest rows, seconds), (most rows, seconds)) where samples take longer the more is
    stored; None where they do not, or that can't be seen. Seconds are the shortest, which noise does not lengthen; the
    exponent is that of the line through them in logarithms."""
    times = {rows: min(each) for rows, each in sorted(seconds.items()) if rows > 0}
    if len(times) < 2 or (many := max(times)) < RANGE * (few := min(times)):
        return None
    line = statistics.linear_regression(*([math.log(each) for each in axis] for axis in (times, times.values())))
    if line.slope < GROWTH or times[many] < SLOWER * times[few]:
        return None
    return line.slope, (few, times[few]), (many, times[many])


def _cost(notes: Notes, large: Pass) -> str:
    stage = notes.stages.get(large.stage)
    if stage is None or None in (stage.peak_bytes, stage.before_bytes) or stage.peak_bytes <= stage.before_bytes:
        return ""
    return f"; stage {large.stage} took {format_value(stage.peak_bytes - stage.before_bytes, 'B')} at its peak"


def _finding(code: str, place: Place, message: str, confidence: str = "high") -> Finding:
    return Finding(place.path, None, place.line, 1, code, message, confidence)
