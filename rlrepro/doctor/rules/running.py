"""Rules that are applied to the notes of a training run."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rlrepro.doctor.finding import Finding, finding_at, rule
from rlrepro.doctor.live.notes import Notes, Pass, Place
from rlrepro.doctor.live.progress import Progress
from rlrepro.doctor.live.thread_stats import Crowd
from rlrepro.doctor.rules.running_open import nan_search, parallel_env, whole_train_batch
from rlrepro.lab.units import format_value

OVERSUBSCRIBED_SHARE = 0.1  # of the run from which oversubscription is not an accident
TRAINING_SHARE, TRAINING_SECONDS = 0.25, 1.0  # or of the training time, if that is long enough
TIMES_LARGER = 2  # than the configured size: the last chunk of a pass may be merged into the one before
ANYWHERE = 8  # the same outside of a library's stages, where a pass may belong to an evaluation
REPEATED = 64  # samples with the same state
RANGE, GROWTH = (
    2.0,
    0.4,
)  # how much the stored transitions must grow to show a trend, and the smallest exponent that is one
SLOWER = 1.5  # and how many times longer a sample must take
WIDE_BYTES = 1000  # per transition and key
SMALL_PASSES = 2  # times smaller than a gradient step's batch


def diagnose(notes: Notes, crowd: Crowd, script: str, folder: Path) -> list[Finding]:
    """The findings of a run, from the notes of its processes and their threads. Paths are relative to the folder."""
    findings = list(threads(notes, crowd, script))
    checks = (whole_rollout, small_passes, repeated_states, collecting, growing_samples, wide_transitions)
    for check in (*checks, nan_search, parallel_env, whole_train_batch):
        findings += check(notes)
    return sorted(replace(finding, path=_below(Path(finding.path), folder)) for finding in findings)


def _below(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


LIVE = {"words": (), "live": True}


@rule(
    "RUN001",
    "more threads than cores",
    fix="Set OMP_NUM_THREADS=1 before torch is imported, call torch.set_num_threads(1) at the start of each process, "
    "or use rlrepro.fixes.train_many.",
    chapter="04_parallel_training",
    claims=("PT1", "PT3"),
    **LIVE,
)
def threads(notes: Notes, crowd: Crowd, script: str) -> Iterator[Finding]:
    """Several processes each compute with a thread for every core. Threads that wait for each other keep spinning on a
    core, and take it from the thread that they wait for."""
    seconds = Progress.of(notes).seconds
    in_training = seconds > TRAINING_SECONDS and crowd.oversubscribed_seconds > TRAINING_SHARE * seconds
    if not in_training and crowd.oversubscribed_seconds <= OVERSUBSCRIBED_SHARE * crowd.seconds:
        return
    message = (
        f"on average, {crowd.runnable:.1f} threads of {crowd.busy_processes:.1f} processes competed for {crowd.cores} "
        "cores"
    )
    if crowd.waited_seconds is not None:
        message += f"; in total they waited {format_value(crowd.waited_seconds, 's')} for a core"
    yield finding_at("RUN001", Place(script or "?", 1, ""), message)


@rule(
    "RUN002",
    "a whole rollout passes through a network at once",
    fix="With tianshou before 1.1.0, install 1.1.0, or use rlrepro.fixes.ChunkedPPOPolicy. In your own code, use "
    "rlrepro.fixes.in_chunks(network, rollout, size=minibatch).",
    chapter="02_logp_old_oom",
    claims=("LO1", "LO2"),
    **LIVE,
)
def whole_rollout(notes: Notes) -> Iterator[Finding]:
    """A network processed far more samples in one pass than every configured size and any pass with gradients: its
    memory grows with the rollout."""
    whole, parts = notes.passes.get("without gradients"), notes.passes.get("with gradients")
    if whole is None:
        return
    times, confidence = (TIMES_LARGER, "high") if whole.stage else (ANYWHERE, "medium")
    sizes = {name: size for name, size in notes.sizes.items() if name in ("batch_size", "max_batchsize")}
    if parts is not None:
        sizes |= {"the largest pass with gradients": parts.rows}
    if sizes and whole.rows > times * max(sizes.values()):
        limits = " and ".join(f"{name} {size:,}" for name, size in sizes.items())
        message = (
            f"a network got {whole.rows:,} samples at once in {whole.place}, against {limits}{_cost(notes, whole)}"
        )
        yield finding_at("RUN002", whole.own or whole.place, message, confidence)


@rule(
    "RUN003",
    "forward passes without gradients that are smaller than necessary",
    fix="Pass max_batchsize=batch_size to the algorithm. If batch_size samples fit with gradients, they also fit "
    "without.",
    chapter="01_two_batch_sizes",
    claims=("TB1", "TB2"),
    **LIVE,
)
def small_passes(notes: Notes) -> Iterator[Finding]:
    """In tianshou, `max_batchsize` limits the forward passes without gradients, `batch_size` those with gradients.
    If you raise `batch_size` because the GPU has room, you usually want to raise `max_batchsize` as well."""
    small, large = notes.sizes.get("max_batchsize"), notes.sizes.get("batch_size")
    parts = notes.passes.get("with gradients")
    if small and large and parts and min(large, parts.rows) >= SMALL_PASSES * small:
        message = (
            f"{parts.rows:,} samples fit with gradients, but forward passes without gradients use max_batchsize "
            f"{small:,}"
        )
        yield finding_at("RUN003", parts.own or parts.place, message)


@rule(
    "RUN004",
    "each state passes through the network once per action",
    fix="Use rlrepro.fixes.FactoredQ. In Pearl, pass critic_network_type=rlrepro.fixes.PearlFactoredQ to "
    "SoftActorCritic.",
    chapter="05_large_action_spaces",
    claims=("LA3",),
    **LIVE,
)
def repeated_states(notes: Notes) -> Iterator[Finding]:
    """A pass with gradients repeats each state for every action, and each layer keeps the activations of all copies."""
    large = notes.passes.get("with gradients")
    if large is not None and large.repeated >= REPEATED:
        message = (
            f"a pass with gradients got {large.rows:,} samples, in which each state occurs {large.repeated:,} times"
            f"{_cost(notes, large)}"
        )
        yield finding_at("RUN004", large.own or large.place, message)


@rule(
    "RUN005",
    "collecting keeps the autograd graph",
    fix="Before training, add: collector.collect = torch.no_grad()(collector.collect)",
    chapter="01_two_batch_sizes",
    **LIVE,
)
def collecting(notes: Notes) -> Iterator[Finding]:
    """The actor runs with gradients while a rollout is collected (in tianshou 1.2.0 to 2.0.1), so the activations of
    each step are kept for a backward pass that never happens."""
    if notes.gradients_while_collecting is not None:
        message = "a network runs with gradients while the rollout is collected"
        yield finding_at("RUN005", notes.gradients_while_collecting, message)


@rule(
    "RUN006",
    "sampling slows down as the buffer fills",
    fix="With torchrl's SliceSampler, set cache_values=True if the buffer is read-only; otherwise, "
    "from rlrepro.fixes import IncrementalSliceSampler as SliceSampler",
    chapter="03_slice_sampler",
    claims=("SS9",),
    **LIVE,
)
def growing_samples(notes: Notes) -> Iterator[Finding]:
    """Drawing a batch should take as long from a full buffer as from a nearly empty one."""
    for name, buffer in notes.buffers.items():
        for batch, seconds in buffer.seconds.items():
            if (growth := trend(seconds)) is None:
                continue
            exponent, (rows, before), (max_rows, after) = growth
            message = (
                f"{name}: the fastest batch of {batch:,} took {format_value(before, 's')} with {rows:,} stored "
                f"transitions and {format_value(after, 's')} with {max_rows:,} (growth exponent {exponent:.2f}), "
                f"in {buffer.place}"
            )
            yield finding_at("RUN006", buffer.own or buffer.place, message)


@rule(
    "RUN007",
    "transitions store more than necessary",
    fix="For one-hot actions in torchrl, pass categorical_action_encoding=True to the environment. For outputs of a "
    "network, call rollout.exclude(KEY) before storing. For data that is the same in every transition, as in Pearl, "
    "use FactoredSAC with SharedActionBuffer.",
    chapter="05_large_action_spaces",
    claims=("LA1", "LA2"),
    **LIVE,
)
def wide_transitions(notes: Notes) -> Iterator[Finding]:
    """Transitions store one-hot vectors of a large action space, outputs of a network that can be recomputed, or an
    action table that is the same in every transition."""
    for name, buffer in notes.buffers.items():
        wide = {
            key: buffer.bytes[key]
            for key, reason in buffer.alike.items()
            if buffer.bytes[key] >= WIDE_BYTES and ("action" in key or reason == "computed by a network")
        }
        if wide:
            parts = ", ".join(
                f"{key} {format_value(size, 'B')} ({buffer.alike[key]})" for key, size in sorted(wide.items())
            )
            total = format_value(sum(buffer.bytes.values()), "B")
            yield finding_at("RUN007", buffer.own or buffer.place, f"{name}: {total} per transition, of which {parts}")


def trend(seconds: dict[int, list[float]]) -> tuple[float, tuple[int, float], tuple[int, float]] | None:
    """(growth exponent, (fewest transitions, seconds), (most transitions, seconds)) if sampling slows down as the
    buffer fills, otherwise None. Uses the shortest time per size, which noise affects least; the exponent is the slope
    of a line through them on logarithmic axes."""
    times = {rows: min(samples) for rows, samples in sorted(seconds.items()) if rows > 0}
    if len(times) < 2 or (max_rows := max(times)) < RANGE * (min_rows := min(times)):
        return None
    line = statistics.linear_regression(*([math.log(value) for value in axis] for axis in (times, times.values())))
    if line.slope < GROWTH or times[max_rows] < SLOWER * times[min_rows]:
        return None
    return line.slope, (min_rows, times[min_rows]), (max_rows, times[max_rows])


def _cost(notes: Notes, large: Pass) -> str:
    stage = notes.stages.get(large.stage)
    if stage is None or None in (stage.peak_bytes, stage.before_bytes) or stage.peak_bytes <= stage.before_bytes:
        return ""
    return f"; the stage {large.stage} took {format_value(stage.peak_bytes - stage.before_bytes, 'B')} at its peak"
