"""What the article says about many training runs at once, and how measurements judge it."""

from statistics import median

from rlrepro.cases.parallel_training import CHAPTER
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.records import MissingRecord, Records

SLOWER = 1.5  # times longer than sharing the cores explains, from which a run counts as slowed down
GONE = 0.25  # of a slowdown: what may be left once its cause is gone, since caches are shared too
HELPS = 0.5  # of a slowdown: a fix that leaves less of it helps
NEARLY_LINEAR = 0.8  # of the ideal throughput
WASTE = 0.5  # of the work: what a launcher may cost on top before another kind is needed

POOL = {"way": "pool", "method": "fork", "net": "large"}
ALONE = POOL | {"threads": "one", "waits": "default", "processes": 1}  # what all others are compared with


def cores(records: Records) -> int:
    return records.get("parallel_training.cores").value


def beyond_share(records: Records, name: str, alone: float, **setting) -> tuple[int, float]:
    """The most processes that were measured in this setting, and how many times longer than `alone` one of them took,
    beyond what sharing the cores explains."""
    values = records.series(f"parallel_training.{name}", "processes", **setting)
    most = max(values)
    return most, values[most] / alone / max(1, most / cores(records))


def slowdown(records: Records, **setting) -> tuple[int, float]:
    """The most processes that were started in this way, and how many times longer a gradient step takes in one of them
    than alone with one thread, beyond what sharing the cores explains."""
    return beyond_share(records, "step", alone_seconds(records), net="large", **setting)


def alone_seconds(records: Records) -> float:
    """Seconds of a gradient step alone with one thread: the median of its measurements throughout the notebook."""
    steps = records.where("parallel_training.step", **ALONE)
    if not steps:
        raise MissingRecord("no record of parallel_training.step of one run alone, with one thread")
    return median(record.value for record in steps)


def pool_slowdown(records: Records, threads: str, waits: str = "default") -> tuple[int, float]:
    return slowdown(records, way="pool", method="fork", threads=threads, waits=waits)


def scripts_slowdown(records: Records) -> tuple[int, float, float]:
    """The most scripts at once, how many times longer they take than one, and how much of that sharing the cores does
    not explain."""
    times = records.series("parallel_training.span", "processes", way="scripts")
    if 1 not in times:
        raise MissingRecord("no record of parallel_training.span of one script alone")
    most, slower = beyond_share(records, "span", times[1], way="scripts")
    return most, times[most] / times[1], slower


def judge_slower_steps(records: Records) -> Verdict:
    most, slower = pool_slowdown(records, "default")
    figure = f"a gradient step of {most} at once takes {slower:.3g} times what sharing {cores(records)} cores explains"
    if slower > SLOWER:
        return Verdict("supported", figure, "with the threads that torch takes by default")
    return Verdict("refuted", figure, "sharing the cores explains it")


def judge_lock(records: Records) -> Verdict:
    _, slower = pool_slowdown(records, "default")
    _, with_one = pool_slowdown(records, "one")
    _, passive = pool_slowdown(records, "default", "passive")
    figure = (
        f"slowed down {slower:.3g} times; {with_one:.3g} with one thread each, {passive:.3g} where threads sleep while "
        "they wait"
    )
    if max(with_one, passive) <= max(GONE * slower, SLOWER):
        return Verdict("refuted", figure, "autograd and its locks were the same each time; the threads were not")
    if min(with_one, passive) > HELPS * slower:
        return Verdict("supported", figure, "neither the number of threads nor how they wait explains it")
    return Verdict("partly", figure, "threads explain part of it")


def judge_scripts(records: Records) -> Verdict:
    most, longer, slower = scripts_slowdown(records)
    figure = (
        f"{most} scripts at once take {longer:.3g} times one alone; sharing the cores explains {longer / slower:.3g}"
    )
    if slower <= SLOWER:
        return Verdict("supported", figure, "they do not slow each other down")
    return Verdict("refuted", figure, "a script has as many threads as a process of a Pool")


def judge_fewer_processes(records: Records) -> Verdict:
    count = cores(records)
    setting = POOL | {"threads": "default", "waits": "default", "processes": count}
    slower = records.get("parallel_training.step", **setting).value / alone_seconds(records)
    figure = f"with {count} processes on {count} cores a gradient step takes {slower:.3g} times as long as alone"
    if slower <= SLOWER:
        return Verdict("supported", figure, "no slowdown is left")
    return Verdict("refuted", figure, "each process still has as many threads as there are cores")


def judge_frameworks(records: Records) -> Verdict:
    measured = [way for way in ("loky", "ray") if records.where("parallel_training.step", way=way)] or ["loky"]
    limited, unlimited = (
        {way: slowdown(records, way=way, threads=threads)[1] for way in measured} for threads in ("framework", "all")
    )
    figure = ", ".join(
        f"{way}: a step takes {limited[way]:.3g} times its share, {unlimited[way]:.3g} with torch's own threads"
        for way in limited
    )
    if max(limited.values()) > SLOWER:
        return Verdict("refuted", figure, "slowed down inside a framework too")
    if max(unlimited.values()) > SLOWER:
        return Verdict("partly", figure, "because they set the number of threads; without that the slowdown is back")
    return Verdict("supported", figure, "whatever the number of threads")


def judge_linear(records: Records) -> Verdict:
    scripts = records.series("parallel_training.of_ideal", "processes", way="scripts")
    count = min(processes for processes in scripts if processes >= cores(records))
    by_train_many = records.series("parallel_training.of_ideal", "processes", way="train_many")
    most = max(by_train_many)
    figure = (
        f"{count} scripts reach {scripts[count]:.2g} of the ideal throughput, {most} runs by train_many "
        f"{by_train_many[most]:.2g}"
    )
    if scripts[count] >= NEARLY_LINEAR:
        return Verdict("supported", figure, f"at least {NEARLY_LINEAR} of it with the article's fix")
    if by_train_many[most] >= NEARLY_LINEAR:
        return Verdict("partly", figure, "not with scripts, but with each process held to its share of the threads")
    return Verdict("refuted", figure, f"less than {NEARLY_LINEAR} of it in both")


def judge_framework_needed(records: Records) -> Verdict:
    record = records.get("parallel_training.overhead", way="train_many")
    count = record.setting["trainings"]
    figure = f"{count} training runs on one machine, {record.value:.0%} on top of their work"
    if record.value <= WASTE:
        return Verdict("refuted", figure, f"a process pool is enough: less than {WASTE:.0%} on top")
    return Verdict("supported", figure, f"more than {WASTE:.0%} on top")


CLAIMS = [
    Claim(
        "PT1", "The gradient step slows down as processes are added", CHAPTER, "See it slow down", judge_slower_steps
    ),
    Claim(
        "PT2", "That is because autograd has a lock that all processes share", CHAPTER, "Why: five suspects", judge_lock
    ),
    Claim("PT3", "Independent processes, started by a script, avoid it", CHAPTER, "Why: five suspects", judge_scripts),
    Claim("PT4", "No more processes than cores avoids it", CHAPTER, "See it slow down", judge_fewer_processes),
    Claim(
        "PT5",
        "Ray or another framework avoids it",
        CHAPTER,
        "The article's fixes, and why some of them work",
        judge_frameworks,
    ),
    Claim(
        "PT6",
        "With the fix, throughput is nearly linear in processes, up to the number of cores",
        CHAPTER,
        "Our fix: a thread budget, and a launcher that keeps to it",
        judge_linear,
    ),
    Claim(
        "PT7",
        "From 10 training runs on, a distributed framework is needed, and a specialised one above 100",
        CHAPTER,
        "Our fix: a thread budget, and a launcher that keeps to it",
        judge_framework_needed,
    ),
]
