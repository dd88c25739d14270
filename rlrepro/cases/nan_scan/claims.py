"""What the threads, tianshou's documentation and we say of the search for NaN, and how measurements judge it."""

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

GROWS = 2  # times the time of the emptiest buffer: more than machines vary
STAYS = 1.5  # times it, at most, counts as no decay; an update reads no more of a full buffer than of an empty one
LINEAR = (0.8, 1.2)  # exponents of times that count as proportional; the first touch of memory bends the line
MOST = 0.5  # the share of the time from which the search counts as the cause
ORDER = 10  # a prediction from another machine is held to this factor: their memory bandwidths differ as much


def _whole_reads(records: Records, **setting) -> tuple[int, int]:
    record = records.get("nan_scan.whole_reads", **setting)
    return record.value, record.setting["collects"]


def judge_every_collect(records: Records) -> Verdict:
    reads = {
        release: _whole_reads(records, release=release, asked=None, incremental=False)
        for release in (LAST_GOOD, FIRST_BAD, NEWEST)
    }
    figure = ", ".join(f"{release}: {whole} in {collects} collects" for release, (whole, collects) in reads.items())
    every = all(reads[release][0] >= reads[release][1] for release in (FIRST_BAD, NEWEST))
    if every and reads[LAST_GOOD][0] == 0:
        return Verdict("supported", figure, "reads of the whole buffer, counted in training runs of each release")
    return Verdict("refuted", figure, f"{LAST_GOOD} reads it too, or the newer ones do not after each collect")


def judge_decay(records: Records) -> Verdict:
    setting, factors = {"algorithm": "SAC", "incremental": False}, {}
    for release in (LAST_GOOD, NEWEST):
        steps = records.along("nan_scan.step", "stored", release=release, **setting)
        factors[release] = ratio(steps[max(steps)], steps[min(steps)])
    share = estimate(np.abs, records.get("nan_scan.share", release=NEWEST, stored=max(steps), **setting))
    figure = (
        f"from {min(steps):,} to {max(steps):,} stored transitions, a training step takes "
        + ", ".join(f"{factor}× the time in {release}" for release, factor in factors.items())
        + f"; there a share of {share} of it looks for NaN"
    )
    grows = factors[NEWEST], GROWS
    if factors[NEWEST] < GROWS:
        return weighed("refuted", figure, f"less than {GROWS}× counts as no decay", grows)
    compared = grows, (factors[LAST_GOOD], STAYS), (share, MOST)
    if factors[LAST_GOOD] > STAYS or share < MOST:
        return weighed("partly", figure, f"it decays, but not only by the search: {LAST_GOOD} does too", *compared)
    return weighed("supported", figure, f"and {LAST_GOOD}, which does not search, keeps its speed", *compared)


def judge_reported_speed(records: Records) -> Verdict:
    exponent = growth(records.along("nan_scan.scan", "stored", kind="frames"))
    predicted = records.along("nan_scan.predicted", "stored")
    full = predicted[REPORTED_STORED]
    speed, hours = (estimate(unit, full) for unit in (np.reciprocal, lambda seconds: seconds * REPORTED_EPOCH / 3600))
    slower = ratio(full, predicted[min(predicted)])
    figure = (
        f"{speed} steps/s and {hours} h per epoch predicted for this machine, {REPORTED_SPEED} steps/s and "
        f"{REPORTED_EPOCH_HOURS} h reported; time of a search ~ stored^{exponent}"
    )
    if slower < GROWS:
        why = "the search takes too little time here to slow anything down"
        return weighed("not testable here", figure, why, (slower, GROWS))
    linear = [(exponent, bound) for bound in LINEAR]
    if not LINEAR[0] <= exponent <= LINEAR[1]:
        why = "the search does not grow in proportion here, so these predictions don't hold"
        return weighed("not testable here", figure, why, (slower, GROWS), *linear)
    apart = [(speed, REPORTED_SPEED / ORDER), (speed, REPORTED_SPEED * ORDER)]
    compared = [(slower, GROWS), *linear, *apart]
    if not apart[0][1] <= speed <= apart[1][1]:
        return weighed("refuted", figure, f"more than {ORDER}× apart", *compared)
    why = (
        f"the same order of magnitude on another machine; and the buffer of {REPORTED_STORED:,} is full after the "
        f"first epoch of {REPORTED_EPOCH:,} steps, from where on the speed stays"
    )
    return weighed("supported", figure, why, *compared)


def judge_switch(records: Records) -> Verdict:
    reads = {
        release: _whole_reads(records, release=release, asked=False, incremental=False)
        for release in (LAST_GOOD, NEWEST)
    }
    figure = ", ".join(
        f"{release} with False: {whole} reads in {collects} collects" for release, (whole, collects) in reads.items()
    )
    if reads[NEWEST][0] == 0:
        return Verdict("supported", figure, "with False, nothing is read")
    if reads[LAST_GOOD][0] == 0:
        return Verdict("refuted", figure, f"it did in {LAST_GOOD}; in {NEWEST} the trainer searches without asking it")
    return Verdict("refuted", figure, "the trainer searches without asking it")


def judge_solved(records: Records) -> Verdict:
    every = judge_every_collect(records)
    fixed = _whole_reads(records, release=LAST_GOOD, asked=None, incremental=False)[0] == 0
    newest, _ = _whole_reads(records, release=NEWEST, asked=None, incremental=False)
    if fixed and newest == 0:
        return Verdict("supported", every.figure, "nothing is read by default")
    if fixed:
        return Verdict("partly", every.figure, f"solved in {LAST_GOOD}, and lost again in {FIRST_BAD} and later")
    return Verdict("refuted", every.figure, "the whole buffer is still read by default")


def judge_memory(records: Records) -> Verdict:
    peaks = records.series("nan_scan.scan_memory", "stored", kind="frames", incremental=False)
    stored = max(peaks)
    held = records.get("nan_scan.stored_bytes", kind="frames", stored=stored).value
    figure = (
        f"{format_value(peaks[stored], 'B')} on top of the {format_value(held, 'B')} that {stored:,} stacked frames "
        f"take: {peaks[stored] / held:.1f}×, {format_value(peaks[stored] / stored, 'B')} per transition"
    )
    if peaks[stored] > held:
        return Verdict("supported", figure, "each frame is copied into its stacks, for observations and the next ones")
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
    same = sum(ours == theirs and ours is not None for ours, theirs in errors.values())
    figure = (
        f"the same error after the same collect for NaN in {same} of {len(errors)} parts of a transition; weights at "
        f"most {worst:.1g} apart; SAC with {fullest.setting['stored']:,} stored trains {speedup}× as fast"
    )
    if same == len(errors) and worst == 0:
        why = "nothing that the search found is missed, and the weights are the same bit for bit"
        return weighed("supported" if speedup > GROWS else "partly", figure, why, (speedup, GROWS))
    return Verdict("refuted", figure, "a NaN is missed or found later, or training differs")


CLAIMS = [
    Claim(
        "NS1",
        "tianshou 2.x looks for NaN in the whole buffer after every collect, and 1.2.0 did not (we say)",
        CHAPTER,
        "Which releases",
        judge_every_collect,
    ),
    Claim(
        "NS2",
        "As the steps increased, the speed gradually decreased (#1285)",
        CHAPTER,
        "Slower and slower",
        judge_decay,
    ),
    Claim(
        "NS3",
        "After the first epoch the speed stayed around 2.6 it/s, which makes 11 hours per epoch (#1285)",
        CHAPTER,
        "What the reporter saw",
        judge_reported_speed,
    ),
    Claim(
        "NS4",
        "raise_on_nan_in_buffer=False avoids the check if it becomes a bottleneck (tianshou's documentation)",
        CHAPTER,
        "Which releases",
        judge_switch,
    ),
    Claim(
        "NS5",
        "Slow collection was solved by making the integrity validation disabled by default (tianshou's changelog)",
        CHAPTER,
        "Which releases",
        judge_solved,
    ),
    Claim(
        "NS6",
        "With stacked frames, a search takes more memory than the buffer itself (we say)",
        CHAPTER,
        "The memory that it takes",
        judge_memory,
    ),
    Claim(
        "NS7",
        "It is enough to look at the transitions just written (we say)",
        CHAPTER,
        "The fix",
        judge_only_written,
    ),
]
