"""What the threads, tianshou's documentation and we say about the search for NaN, and how measurements judge it."""

from functools import partial

import numpy as np

from rlrepro.cases.nan_scan import (
    CHAPTER,
    FIRST_BAD,
    LAST_GOOD,
    NEWEST,
    REPORTED_EPOCH,
    REPORTED_EPOCH_HOURS,
    REPORTED_SPEED,
    REPORTED_STORED,
)
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.estimates import estimate, growth, ratio
from rlrepro.evidence.records import Records
from rlrepro.evidence.rules import weighed
from rlrepro.lab.units import format_value

SLOWED = 2  # times as long as with the emptiest buffer: more than machines vary
STEADY = 1.5  # up to this factor there is no decay; an update reads no more from a full buffer than from an empty one
LINEAR = (0.8, 1.2)  # exponents of times that count as proportional; the first touch of memory bends the line
MAIN_SHARE = 0.5  # the share of the time from which the search counts as the cause
ORDER = 10  # a prediction from another machine is held to this factor: memory bandwidths differ by as much


def _whole_reads(records: Records, releases: tuple[str, ...], raise_on_nan: bool | None) -> dict[str, tuple[int, int]]:
    """How often each release read its whole buffer with this raise_on_nan_in_buffer, and in how many collects."""
    runs = (records.get("nan_scan.whole_reads", release=r, asked=raise_on_nan, incremental=False) for r in releases)
    return {run.setting["release"]: (run.value, run.setting["collects"]) for run in runs}


def judge_every_collect(records: Records) -> Verdict:
    reads = _whole_reads(records, (LAST_GOOD, FIRST_BAD, NEWEST), raise_on_nan=None)
    figure = ", ".join(f"{release}: {count} in {collects} collects" for release, (count, collects) in reads.items())
    in_every_collect = all(reads[release][0] >= reads[release][1] for release in (FIRST_BAD, NEWEST))
    if in_every_collect and reads[LAST_GOOD][0] == 0:
        return Verdict("supported", figure, "reads of the whole buffer, counted in training runs of each release")
    return Verdict(
        "refuted", figure, f"{LAST_GOOD} reads it too, or the newer releases do not read it after each collect"
    )


def judge_decay(records: Records) -> Verdict:
    setting, factors = {"algorithm": "SAC", "incremental": False}, {}
    for release in (LAST_GOOD, NEWEST):
        steps = records.along("nan_scan.step", "stored", release=release, **setting)
        factors[release] = ratio(steps[max(steps)], steps[min(steps)])
    share = estimate(np.abs, records.get("nan_scan.share", release=NEWEST, stored=max(steps), **setting))
    figure = (
        f"from {min(steps):,} to {max(steps):,} stored transitions, a training step becomes "
        + " and ".join(f"{factor} times as long in {release}" for release, factor in factors.items())
        + f", where the search takes {share} of the step"
    )
    slowdown = factors[NEWEST], SLOWED
    if factors[NEWEST] < SLOWED:
        return weighed("refuted", figure, f"less than {SLOWED}× counts as no decay", slowdown)
    comparisons = slowdown, (factors[LAST_GOOD], STEADY), (share, MAIN_SHARE)
    if factors[LAST_GOOD] > STEADY:
        reason = f"it decays, but not only because of the search: {LAST_GOOD} slows down as well"
        return weighed("partly", figure, reason, *comparisons)
    if share < MAIN_SHARE:
        reason = f"it decays, but the search takes less than {MAIN_SHARE:.0%} of a step"
        return weighed("partly", figure, reason, *comparisons)
    return weighed("supported", figure, f"{LAST_GOOD}, which does not search, keeps its speed", *comparisons)


def judge_reported_speed(records: Records) -> Verdict:
    exponent = growth(records.along("nan_scan.scan", "stored", kind="frames"))
    predicted = records.along("nan_scan.predicted", "stored")
    full = predicted[REPORTED_STORED]
    speed, hours = (estimate(unit, full) for unit in (np.reciprocal, lambda seconds: seconds * REPORTED_EPOCH / 3600))
    slowdown = ratio(full, predicted[min(predicted)])
    figure = (
        f"{speed} steps/s and {hours} h per epoch predicted for this machine, {REPORTED_SPEED} steps/s and "
        f"{REPORTED_EPOCH_HOURS} h reported; time of a search ~ stored^{exponent}"
    )
    if slowdown < SLOWED:
        reason = "the search takes too little time here to slow anything down"
        return weighed("not testable here", figure, reason, (slowdown, SLOWED))
    linear = [(exponent, bound) for bound in LINEAR]
    if not LINEAR[0] <= exponent <= LINEAR[1]:
        reason = "the search does not grow in proportion here, so these predictions don't hold"
        return weighed("not testable here", figure, reason, (slowdown, SLOWED), *linear)
    speed_bounds = [(speed, REPORTED_SPEED / ORDER), (speed, REPORTED_SPEED * ORDER)]
    comparisons = [(slowdown, SLOWED), *linear, *speed_bounds]
    if not speed_bounds[0][1] <= speed <= speed_bounds[1][1]:
        return weighed("refuted", figure, f"more than {ORDER}× apart", *comparisons)
    reason = (
        f"both speeds are of the same order of magnitude, on different machines. The buffer of {REPORTED_STORED:,} is "
        f"full after the first epoch of {REPORTED_EPOCH:,} steps, and from then on the speed is constant"
    )
    return weighed("supported", figure, reason, *comparisons)


def judge_switch(records: Records) -> Verdict:
    reads = _whole_reads(records, (LAST_GOOD, NEWEST), raise_on_nan=False)
    figure = ", ".join(
        f"{release} with False: {count} reads in {collects} collects" for release, (count, collects) in reads.items()
    )
    if reads[NEWEST][0] == 0:
        return Verdict("supported", figure, "with False, nothing is read")
    if reads[LAST_GOOD][0] == 0:
        return Verdict("refuted", figure, f"it works in {LAST_GOOD}; in {NEWEST} the trainer ignores it")
    return Verdict("refuted", figure, "the trainer ignores it")


def judge_solved(records: Records) -> Verdict:
    verdict, reads = judge_every_collect(records), _whole_reads(records, (LAST_GOOD, NEWEST), raise_on_nan=None)
    fixed, newest = (reads[release][0] == 0 for release in (LAST_GOOD, NEWEST))
    if fixed and newest:
        return Verdict("supported", verdict.figure, "nothing is read by default")
    if fixed:
        return Verdict("partly", verdict.figure, f"solved in {LAST_GOOD}, but back in {FIRST_BAD} and later")
    return Verdict("refuted", verdict.figure, "the whole buffer is still read by default")


def judge_memory(records: Records) -> Verdict:
    peaks = records.series("nan_scan.scan_memory", "stored", kind="frames", incremental=False)
    stored = max(peaks)
    buffer_bytes = records.get("nan_scan.stored_bytes", kind="frames", stored=stored).value
    figure = (
        f"{format_value(peaks[stored], 'B')} on top of the {format_value(buffer_bytes, 'B')} that {stored:,} stacked "
        f"frames take: {peaks[stored] / buffer_bytes:.1f}×, {format_value(peaks[stored] / stored, 'B')} per transition"
    )
    if peaks[stored] > buffer_bytes:
        return Verdict(
            "supported", figure, "each frame is copied into its stacks, for observations and next observations"
        )
    return Verdict("refuted", figure, "it takes less than the buffer itself")


def judge_only_written(records: Records) -> Verdict:
    errors = {
        record.setting["part"]: [
            record.value,
            records.get("nan_scan.error", part=record.setting["part"], incremental=False).value,
        ]
        for record in records.all("nan_scan.error", incremental=True)
    }
    differences = records.all("nan_scan.weight_difference")
    worst = max(record.value for record in differences)
    fullest = max(records.all("nan_scan.speedup", algorithm="SAC"), key=lambda record: record.setting["stored"])
    speedup = estimate(np.abs, fullest)
    equal = sum(ours == theirs and ours is not None for ours, theirs in errors.values())
    figure = (
        f"the same error after the same collect for NaN in {equal} of {len(errors)} parts of a transition; weights at "
        f"most {worst:.1g} apart; SAC with {fullest.setting['stored']:,} stored trains {speedup}× as fast"
    )
    if equal == len(errors) and worst == 0:
        reason = "nothing that the search found is missed, and the weights are the same bit for bit"
        if speedup <= SLOWED:
            return weighed("partly", figure, f"{reason}, but training is hardly faster", (speedup, SLOWED))
        return weighed("supported", figure, reason, (speedup, SLOWED))
    return Verdict("refuted", figure, "a NaN is missed or found later, or training differs")


claim = partial(Claim, chapter=CHAPTER)

CLAIMS = [
    claim(
        "NS1",
        "tianshou 2.x looks for NaN in the whole buffer after every collect, and 1.2.0 did not (our claim)",
        section="Which releases",
        judge=judge_every_collect,
    ),
    claim(
        "NS2",
        "As the steps increased, the speed gradually decreased (#1285)",
        section="Slower and slower",
        judge=judge_decay,
    ),
    claim(
        "NS3",
        "After the first epoch the speed stayed around 2.6 it/s, which makes 11 hours per epoch (#1285)",
        section="What the reporter saw",
        judge=judge_reported_speed,
    ),
    claim(
        "NS4",
        "raise_on_nan_in_buffer=False avoids the check if it becomes a bottleneck (tianshou's documentation)",
        section="Which releases",
        judge=judge_switch,
    ),
    claim(
        "NS5",
        "Slow collection was solved by making the integrity validation disabled by default (tianshou's changelog)",
        section="Which releases",
        judge=judge_solved,
    ),
    claim(
        "NS6",
        "With stacked frames, a search takes more memory than the buffer itself (our claim)",
        section="The memory that it takes",
        judge=judge_memory,
    ),
    claim(
        "NS7",
        "It is enough to look at the transitions just written (our claim)",
        section="The fix",
        judge=judge_only_written,
    ),
]
