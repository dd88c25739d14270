"""What the threads, tianshou's documentation and we say of the search for NaN, and how measurements judge it."""

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
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import Records
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
    factors = {}
    for release in (LAST_GOOD, NEWEST):
        steps = records.series("nan_scan.step", "stored", release=release, algorithm="SAC", incremental=False)
        factors[release] = steps[max(steps)] / steps[min(steps)]
    share = records.get("nan_scan.step", release=NEWEST, algorithm="SAC", incremental=False, stored=max(steps)).setting[
        "share"
    ]
    figure = (
        f"from {min(steps):,} to {max(steps):,} stored transitions, a training step takes "
        + ", ".join(f"{factor:.1f}× the time in {release}" for release, factor in factors.items())
        + f"; there {share:.0%} of it looks for NaN"
    )
    if factors[NEWEST] < GROWS:
        return Verdict("refuted", figure, f"less than {GROWS}× counts as no decay")
    if factors[LAST_GOOD] > STAYS or share < MOST:
        return Verdict("partly", figure, f"it decays, but not only by the search: {LAST_GOOD} does too")
    return Verdict("supported", figure, f"and {LAST_GOOD}, which does not search, keeps its speed")


def judge_reported_speed(records: Records) -> Verdict:
    scans = records.series("nan_scan.scan", "stored", kind="frames")
    exponent = growth_exponent(scans, scans.values())
    predicted = records.series("nan_scan.predicted", "stored")
    full = 1 / records.get("nan_scan.predicted", stored=REPORTED_STORED).value
    hours = REPORTED_EPOCH / full / 3600
    figure = (
        f"{full:.2g} steps/s and {hours:,.0f} h per epoch predicted for this machine, {REPORTED_SPEED} steps/s and "
        f"{REPORTED_EPOCH_HOURS} h reported; time of a search ~ stored^{exponent:.2f}"
    )
    if 1 / full < GROWS * min(predicted.values()):
        return Verdict("not testable here", figure, "the search takes too little time here to slow anything down")
    if not LINEAR[0] <= exponent <= LINEAR[1]:
        return Verdict("refuted", figure, "the search does not grow in proportion, so it would not end where reported")
    if not 1 / ORDER <= full / REPORTED_SPEED <= ORDER:
        return Verdict("refuted", figure, f"more than {ORDER}× apart")
    return Verdict(
        "supported",
        figure,
        f"the same order of magnitude on another machine; and the buffer of {REPORTED_STORED:,} is full after the "
        f"first epoch of {REPORTED_EPOCH:,} steps, from where on the speed stays",
    )


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
    speedup = max(records.all("nan_scan.speedup", algorithm="SAC"), key=lambda record: record.setting["stored"])
    same = sum(ours == theirs and ours is not None for ours, theirs in errors.values())
    figure = (
        f"the same error after the same collect for NaN in {same} of {len(errors)} parts of a transition; weights at "
        f"most {worst:.1g} apart; SAC with {speedup.setting['stored']:,} stored trains {speedup.value:.1f}× as fast"
    )
    if same == len(errors) and worst == 0:
        outcome = "supported" if speedup.value > GROWS else "partly"
        return Verdict(
            outcome, figure, "nothing that the search found is missed, and the weights are the same bit for bit"
        )
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
