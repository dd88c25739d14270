"""What the commit says about the wait, what we say, and how measurements judge both."""

from functools import partial

import numpy as np

from rlrepro.cases.parallel_env import CHAPTER, LONG, NEWEST, SLEEPING, SPINNING
from rlrepro.evidence.claims import Claim, Finding, Verdict
from rlrepro.evidence.estimates import Estimate, estimate
from rlrepro.evidence.records import Record, Records
from rlrepro.evidence.rules import at_least, weighed
from rlrepro.lab.units import format_value

BUSY, IDLE = 0.8, 0.2  # of a core: from here on it is kept busy, up to here it is left to others
COMMIT = 1.1  # how many times faster the commit measured the loop to be, in frames per second
SLOWER = 1.1  # how many times longer counts as slowed down, beyond the noise of a machine that has other work
OURS_CPU, OURS_TIME = 0.1, 1.05  # what sleeping may cost: of a core, and of the time of a step
SHORT = 1e-3  # seconds of an environment's step up to which it counts as short: there a wake-up weighs most


def _cores(records: Records) -> int:
    return records.get("parallel_env.cores").value


def _one_core(records: Records) -> Verdict | None:
    """The verdict where the parent can't have a core to itself."""
    if _cores(records) > 1:
        return None
    return Verdict("not testable here", "1 core", "a parent that shares its core with its worker can't keep it busy")


def judge_core_kept_busy(records: Records) -> Verdict:
    if verdict := _one_core(records):
        return verdict
    busy = {
        release: _as_estimate(records.get("parallel_env.parent_cpu", release=release, wait="theirs", seconds=LONG))
        for release in (SLEEPING, SPINNING, NEWEST)
    }
    figure = f"with steps of {format_value(LONG, 's')}, " + ", ".join(
        f"{release}: {cores} cores" for release, cores in busy.items()
    )
    comparisons = [(busy[SPINNING], BUSY), (busy[NEWEST], BUSY), (busy[SLEEPING], IDLE)]
    if min(busy[SPINNING], busy[NEWEST]) >= BUSY and busy[SLEEPING] <= IDLE:
        return weighed("supported", figure, "the parent computes nothing in that time", *comparisons)
    if max(busy[SPINNING], busy[NEWEST]) <= IDLE:
        comparisons = [(busy[SPINNING], IDLE), (busy[NEWEST], IDLE)]
        return weighed("refuted", figure, f"up to {IDLE} cores count as asleep", *comparisons)
    reason = f"from {BUSY} cores on, the parent counts as busy; up to {IDLE}, as asleep"
    return weighed("partly", figure, reason, *comparisons)


def judge_faster(records: Records) -> Finding | Verdict:
    if verdict := _one_core(records):
        return verdict
    factor = _short_steps(records)
    figure = f"steps of at most {format_value(SHORT, 's')}: sleeping takes {factor}× the time"
    reasons = {"refuted": "polling gains less than that, even where the parent has a core to itself"}
    return Finding(figure, [factor], reasons)


def _short_steps(records: Records) -> Estimate:
    """How many times as long short steps take with ours, from all samples of all short lengths: the largest of several
    noisy ratios would be too large."""
    short = [r for r in records.all("parallel_env.ours_ratio") if r.setting["seconds"] <= SHORT]
    return estimate(np.abs, short)


def judge_crowd(records: Records) -> Finding | Verdict:
    cores = _cores(records)
    crowded = [r for r in records.all("parallel_env.crowd_ratio") if r.setting["workers"] >= cores]
    if not crowded:
        largest = max(r.setting["workers"] for r in records.where("parallel_env.crowd_ratio"))
        return Verdict("not testable here", f"{cores} cores", f"at most {largest} environments were measured")
    worst = max(crowded, key=lambda record: record.value)
    seconds, factor = format_value(worst.setting["seconds"], "s"), _as_estimate(worst)
    figure = (
        f"{environments(worst)} on {cores} cores, {seconds} each: a step takes {factor}× the time that it takes with a "
        "parent that sleeps"
    )
    return Finding(figure, [factor])


def judge_side_by_side(records: Records) -> Finding | Verdict:
    cores = _cores(records)
    runs = records.all("parallel_env.side_by_side_ratio")
    crowded = [r for r in runs if r.setting["runs"] > 1 and r.setting["runs"] * (1 + r.setting["workers"]) > cores]
    if not crowded:
        return Verdict("not testable here", f"{cores} cores", "each run had enough cores for all of its processes")
    worst = max(crowded, key=lambda record: record.value)
    gain = _as_estimate(worst)
    figure = (
        f"{worst.setting['runs']} runs of {environments(worst)} on {cores} cores: {gain}× the steps per second, with "
        "parents that sleep"
    )
    return Finding(figure, [gain])


def judge_ours(records: Records) -> Verdict:
    if verdict := _one_core(records):
        return verdict
    cpu = _as_estimate(records.get("parallel_env.parent_cpu", wait="ours", seconds=LONG))
    short = _short_steps(records)
    long_steps = [r for r in records.all("parallel_env.ours_ratio") if r.setting["seconds"] > SHORT]
    slowest = max(map(_as_estimate, long_steps))
    figure = (
        f"{cpu} cores with steps of {format_value(LONG, 's')}; steps of at most {format_value(SHORT, 's')} take "
        f"{short}× the time, longer ones at most {slowest}×"
    )
    comparisons = (cpu, OURS_CPU), (short, OURS_TIME), *((_as_estimate(record), OURS_TIME) for record in long_steps)
    passes = all(number <= bound for number, bound in comparisons)
    return weighed(
        "supported" if passes else "refuted", figure, "ours against torchrl's own, timed alternately", *comparisons
    )


def judge_late(records: Records) -> Verdict:
    late = {
        release: records.get("parallel_env.steps_late", release=release, wait="theirs").value
        for release in (SLEEPING, SPINNING, NEWEST)
    }
    ours = records.get("parallel_env.steps_late", release=NEWEST, wait="ours").value
    figure = "steps late: " + ", ".join(f"{release}: {count}" for release, count in late.items()) + f", ours: {ours}"
    if not (late[SPINNING] or late[NEWEST]):
        return Verdict("refuted", figure, "transitions are those of the requested step")
    if late[SLEEPING] == ours == 0 and late[SPINNING] and late[NEWEST]:
        return Verdict("supported", figure, "the flag that loading leaves set is taken for that of the next step")
    return Verdict("partly", figure, "not in exactly the releases with the loop")


def _as_estimate(record: Record) -> Estimate:
    return estimate(np.abs, record)


def environments(record: Record) -> str:
    count = record.setting["workers"]
    return f"{count} environment{'s' * (count != 1)}"


SLOWED_DOWN = at_least(SLOWER)
PARENT, OTHERS = "See the parent work", "What it costs others"
POLLING, LOADED = "What polling buys, and what sleeping costs", "The same flags, and transitions that come late"
claim = partial(Claim, chapter=CHAPTER)

CLAIMS = [
    claim(
        "PE1",
        f"From {SPINNING} on, ParallelEnv's parent keeps a core busy while its workers step; in {SLEEPING} it slept "
        "(our claim)",
        section=PARENT,
        judge=judge_core_kept_busy,
    ),
    claim(
        "PE2",
        "Polling flags instead of sleeping gives 10% more frames per second (commit d64b43867)",
        section=POLLING,
        judge=judge_faster,
        rule=at_least(COMMIT),
    ),
    claim(
        "PE3",
        "Polling takes time from environments that need all cores (our claim)",
        section=OTHERS,
        judge=judge_crowd,
        rule=SLOWED_DOWN,
    ),
    claim(
        "PE4",
        "Training runs side by side get less done with parents that poll (our claim)",
        section=OTHERS,
        judge=judge_side_by_side,
        rule=SLOWED_DOWN,
    ),
    claim(
        "PE5",
        "PatientParallelEnv takes at most a tenth of a core, and at most 5% more time (our claim)",
        section=POLLING,
        judge=judge_ours,
    ),
    claim(
        "PE6",
        f"From {SPINNING} on, transitions come one step late after load_state_dict (our claim)",
        section=LOADED,
        judge=judge_late,
    ),
]
