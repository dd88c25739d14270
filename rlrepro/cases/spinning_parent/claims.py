"""What the commit says of the wait, what we say, and how measurements judge both."""

from rlrepro.cases.spinning_parent import CHAPTER, LONG, NEWEST, SLEEPING, SPINNING
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.records import Record, Records
from rlrepro.lab.units import format_value

KEEPS, LEAVES = 0.8, 0.2  # of a core: from here on it is kept busy, up to here it is left to others
COMMIT = 1.1  # how many times faster the commit measured the loop to be, in frames per second
SLOWER = 1.1  # how many times longer counts as slowed down, beyond the noise of a machine that has other work
OURS_CPU, OURS_LONG, OURS_SHORT = 0.1, 1.02, 1.05  # what sleeping may cost: of a core; of the time of a step


def _cores(records: Records) -> int:
    return records.get("spinning_parent.cores").value


def _one_core(records: Records) -> Verdict | None:
    """The verdict where the parent can't have a core to itself."""
    if _cores(records) > 1:
        return None
    return Verdict("not testable here", "1 core", "a parent that shares its core with its worker can't keep it busy")


def judge_core_kept_busy(records: Records) -> Verdict:
    if verdict := _one_core(records):
        return verdict
    busy = {
        release: records.get("spinning_parent.parent_cpu", release=release, wait="theirs", seconds=LONG).value
        for release in (SLEEPING, SPINNING, NEWEST)
    }
    figure = f"steps of {format_value(LONG, 's')}: " + ", ".join(
        f"{release} {value:.0%} of a core" for release, value in busy.items()
    )
    if min(busy[SPINNING], busy[NEWEST]) >= KEEPS and busy[SLEEPING] <= LEAVES:
        return Verdict("supported", figure, "the parent computes nothing in that time")
    if max(busy[SPINNING], busy[NEWEST]) <= LEAVES:
        return Verdict("refuted", figure, f"up to {LEAVES:.0%} counts as asleep")
    return Verdict("partly", figure, f"from {KEEPS:.0%} on it counts as kept busy, up to {LEAVES:.0%} as left free")


def judge_faster(records: Records) -> Verdict:
    if verdict := _one_core(records):
        return verdict
    most = max(records.all("spinning_parent.ours_ratio"), key=lambda record: record.value)
    figure = f"with {environments(most)}, sleeping takes at most {_time(most)}"
    if most.value >= COMMIT:
        return Verdict("supported", figure, f"the commit measured {COMMIT:.2f}× the frames per second")
    if most.spread[0] > 1:
        return Verdict("partly", figure, f"faster, but by less than the {COMMIT - 1:.0%} of the commit")
    return Verdict("refuted", figure, "even where the parent has a core to itself, sleeping is not slower")


def judge_crowd(records: Records) -> Verdict:
    cores = _cores(records)
    crowded = [r for r in records.all("spinning_parent.crowd_ratio") if r.setting["workers"] >= cores]
    if not crowded:
        most = max(r.setting["workers"] for r in records.where("spinning_parent.crowd_ratio"))
        return Verdict("not testable here", f"{cores} cores", f"at most {most} environments were measured")
    worst = max(crowded, key=lambda record: record.value)
    seconds, ratio = format_value(worst.setting["seconds"], "s"), format_value(worst.value, "ratio")
    figure = f"{environments(worst)} on {cores} cores, {seconds} each: a step takes {ratio}"
    return _slowed_down(worst.value, figure, "the time that it takes with a parent that sleeps")


def judge_side_by_side(records: Records) -> Verdict:
    cores = _cores(records)
    runs = records.all("spinning_parent.side_by_side_ratio")
    crowded = [r for r in runs if r.setting["runs"] > 1 and r.setting["runs"] * (1 + r.setting["workers"]) > cores]
    if not crowded:
        return Verdict("not testable here", f"{cores} cores", "each run had cores enough for all of its processes")
    worst = max(crowded, key=lambda record: record.value)
    gain = format_value(worst.value, "ratio")
    figure = f"{worst.setting['runs']} runs of {environments(worst)} on {cores} cores: {gain} the steps per second"
    return _slowed_down(worst.value, figure, "of the same runs, with parents that sleep")


def judge_ours(records: Records) -> Verdict:
    if verdict := _one_core(records):
        return verdict
    cpu = records.get("spinning_parent.parent_cpu", wait="ours", seconds=LONG).value
    long = records.get("spinning_parent.ours_ratio", seconds=LONG)
    worst = max(records.all("spinning_parent.ours_ratio"), key=lambda record: record.value)
    figure = (
        f"steps of {format_value(LONG, 's')}: {cpu:.1%} of a core, {long.value:.3f}× the time; at most {_time(worst)}"
    )
    holds = cpu <= OURS_CPU and long.value <= OURS_LONG and worst.value <= OURS_SHORT
    return Verdict("supported" if holds else "refuted", figure, "ours against torchrl's own, in turns")


def judge_late(records: Records) -> Verdict:
    late = {
        release: records.get("spinning_parent.steps_late", release=release, wait="theirs").value
        for release in (SLEEPING, SPINNING, NEWEST)
    }
    ours = records.get("spinning_parent.steps_late", release=NEWEST, wait="ours").value
    figure = "steps late: " + ", ".join(f"{release} {count}" for release, count in late.items()) + f", ours {ours}"
    if not (late[SPINNING] or late[NEWEST]):
        return Verdict("refuted", figure, "transitions are those of the step that was asked for")
    if late[SLEEPING] == ours == 0 and late[SPINNING] and late[NEWEST]:
        return Verdict("supported", figure, "the flag that loading leaves set is taken for that of the next step")
    return Verdict("partly", figure, "not in exactly the releases with the loop")


def _slowed_down(ratio: float, figure: str, why: str) -> Verdict:
    return Verdict("supported" if ratio >= SLOWER else "refuted", figure, f"{why}; from {SLOWER}× on it counts")


def environments(record: Record) -> str:
    count = record.setting["workers"]
    return f"{count} environment{'s' * (count != 1)}"


def _time(record: Record) -> str:
    return f"{record.value:.3f}× the time (environments' steps of {format_value(record.setting['seconds'], 's')})"


SEE, OTHERS = "See the parent work", "What it costs others"
BUYS, LOADED = "What polling buys, and what sleeping costs", "The same flags, and transitions that come late"
CLAIMS = [
    Claim(
        "PE1",
        f"From {SPINNING} on, ParallelEnv's parent keeps a core busy while its workers step; in {SLEEPING} it slept",
        CHAPTER,
        SEE,
        judge_core_kept_busy,
    ),
    Claim(
        "PE2",
        "Polling flags instead of sleeping gives 10% more frames per second (commit d64b43867)",
        CHAPTER,
        BUYS,
        judge_faster,
    ),
    Claim("PE3", "It takes time from environments that need all cores", CHAPTER, OTHERS, judge_crowd),
    Claim("PE4", "Training runs side by side get less done", CHAPTER, OTHERS, judge_side_by_side),
    Claim(
        "PE5",
        "PatientParallelEnv takes at most a tenth of a core at steps of 20 ms, and 5% more time at any",
        CHAPTER,
        BUYS,
        judge_ours,
    ),
    Claim(
        "PE6",
        f"From {SPINNING} on, transitions come one step late after load_state_dict",
        CHAPTER,
        LOADED,
        judge_late,
    ),
]
