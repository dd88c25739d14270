"""What the article says about many training runs at once, and how measurements judge it."""

from functools import partial

import numpy as np

from rlrepro.cases.parallel_training import CHAPTER
from rlrepro.cases.parallel_training.article import ARTICLE
from rlrepro.evidence.claims import Claim, Finding, Premise
from rlrepro.evidence.estimates import Estimate, estimate
from rlrepro.evidence.records import MissingRecord, Record, Records
from rlrepro.evidence.rules import at_least, at_most, because_of, share_left
from rlrepro.lab.units import format_value

SLOWER = 1.5  # times longer than sharing the cores explains, from which a run counts as slowed down
NEARLY_LINEAR = 0.8  # of the ideal throughput
TWICE = 2  # the memory of one run: a second buffer
WASTE = 0.5  # of the work: what a launcher may cost in addition before another kind is needed

POOL = {"way": "pool", "method": "fork", "net": "large"}
ALONE = POOL | {"threads": "one", "waits": "default", "processes": 1}  # the baseline of all others


def cores(records: Records) -> int:
    return records.get("parallel_training.cores").value


def beyond_share(records: Records, name: str, alone: float, **setting) -> tuple[int, Estimate]:
    """The most processes that were measured in this setting, and how many times longer one of them took than alone,
    beyond what sharing the cores explains. `alone` is a record, or several, of which the median counts."""
    measured = records.along(f"parallel_training.{name}", "processes", **setting)
    processes = max(measured)
    share = max(1, processes / cores(records))
    return processes, estimate(lambda together, single: together / single / share, measured[processes], alone)


def slowdown(records: Records, **setting) -> tuple[int, Estimate]:
    """The most processes that were started in this way, and how many times longer a gradient step takes in one of them
    than alone with one thread, beyond what sharing the cores explains."""
    return beyond_share(records, "step", steps_alone(records), net="large", **setting)


def steps_alone(records: Records) -> list[Record]:
    """All measurements in the notebook of a gradient step alone with one thread."""
    return records.all("parallel_training.step", **ALONE)


def pool_slowdown(records: Records, threads: str, waits: str = "default") -> tuple[int, Estimate]:
    return slowdown(records, way="pool", method="fork", threads=threads, waits=waits)


def scripts_slowdown(records: Records) -> tuple[int, Estimate, float]:
    """The most scripts at once, how many times longer they take than one beyond what sharing the cores explains, and
    the factor that sharing explains."""
    spans = records.along("parallel_training.span", "processes", way="scripts")
    if 1 not in spans:
        raise MissingRecord("no record of parallel_training.span of one script alone")
    processes, factor = beyond_share(records, "span", spans[1], way="scripts")
    return processes, factor, max(1, processes / cores(records))


def judge_slower_steps(records: Records) -> Finding:
    processes, factor = pool_slowdown(records, "default")
    figure = f"a step in {processes} processes takes {factor} times as long as sharing {cores(records)} cores explains"
    reasons = {"supported": "with the threads that torch takes by default", "refuted": "sharing the cores explains it"}
    return Finding(figure, [factor], reasons)


def judge_lock(records: Records) -> Finding:
    (_, factor), (_, one_thread), (_, passive) = (
        pool_slowdown(records, *setting) for setting in (("default",), ("one",), ("default", "passive"))
    )
    figure = (
        f"slowed down by a factor of {factor}; {one_thread} with one thread each, {passive} where threads sleep while "
        "they wait"
    )
    reasons = {
        "refuted": "autograd and its locks were the same each time; the threads were not",
        "supported": "neither the number of threads nor how they wait explains it",
        "partly": "threads explain part of it",
    }
    return Finding(figure, [_share_left(factor, remaining) for remaining in (one_thread, passive)], reasons)


def _share_left(effect: Estimate, left: Estimate) -> Estimate:
    """The share of an effect that is left, on a logarithmic scale."""
    if not (effect.interval and left.interval):
        return Estimate(share_left(effect, left))
    return Estimate(share_left(effect, left), tuple(map(share_left, reversed(effect.interval), left.interval)))


def judge_scripts(records: Records) -> Finding:
    processes, factor, share = scripts_slowdown(records)
    figure = (
        f"{processes} scripts at once take {factor} times as long as sharing the cores explains; by sharing alone, "
        f"they would take {share:.3g} times as long as one"
    )
    reasons = {
        "supported": "they do not slow each other down",
        "refuted": "a script has as many threads as a process of a Pool",
    }
    return Finding(figure, [factor], reasons)


def judge_fewer_processes(records: Records) -> Finding:
    n_cores = cores(records)
    measured = records.get("parallel_training.step", **POOL, threads="default", waits="default", processes=n_cores)
    factor = estimate(np.divide, measured, steps_alone(records))
    figure = f"with {n_cores} processes on {n_cores} cores a gradient step takes {factor} times as long as alone"
    reasons = {"refuted": "each process still has as many threads as there are cores"}
    return Finding(figure, [factor], reasons)


def judge_frameworks(records: Records) -> Finding:
    measured = [way for way in ("loky", "ray") if records.where("parallel_training.step", way=way)] or ["loky"]
    limited, unlimited = (
        {way: slowdown(records, way=way, threads=threads)[1] for way in measured} for threads in ("framework", "all")
    )
    figure = ", ".join(
        f"{way}: a step takes {limited[way]} times its share, {unlimited[way]} with torch's own threads"
        for way in limited
    )
    reasons = {
        "refuted": "slowed down inside a framework too",
        "partly": "because they set the number of threads; without that the slowdown is back",
        "supported": "whatever the number of threads",
    }
    worst = max(limited.values())
    return Finding(figure, [worst, max(worst, *unlimited.values())], reasons)


def judge_linear(records: Records) -> Finding:
    scripts, by_train_many = (
        records.along("parallel_training.of_ideal", "processes", way=way) for way in ("scripts", "train_many")
    )
    count = min(processes for processes in scripts if processes >= cores(records))
    runs = max(by_train_many)
    by_scripts, ours = (estimate(abs, record) for record in (scripts[count], by_train_many[runs]))
    figure = f"{count} scripts reach {by_scripts} of the ideal throughput, {runs} runs by train_many {ours}"
    reasons = {"partly": "not with the article's scripts, but with each process held to its share of the threads"}
    return Finding(figure, [by_scripts, max(by_scripts, ours)], reasons)


def judge_framework_needed(records: Records) -> Finding:
    record = records.get("parallel_training.overhead", way="train_many")
    overhead = estimate(np.positive, record)
    figure = f"{record.setting['trainings']} training runs on one machine; overhead: {overhead} of their work"
    return Finding(figure, [overhead], {"refuted": "a process pool is enough"})


def judge_sequential_memory(records: Records, way: str = "released") -> Finding:
    sizes = records.series("parallel_training.buffer_bytes", "run", way=way)
    own = records.get("parallel_training.buffer_bytes", way="released", run=1).value  # the buffer of one run
    largest = max(sizes.values())
    figure = (
        f"up to {format_value(largest, 'B')} of rollout buffers in {len(sizes)} runs, {format_value(own, 'B')} in one"
    )
    return Finding(figure, [largest / own])


def judge_never_freed(records: Records) -> Finding:
    buffers = records.series("parallel_training.buffers", "run", way="released")
    figure = f"at most {max(buffers.values())} rollout buffers in memory at the same time, in {len(buffers)} runs"
    return Finding(
        figure, [max(buffers.values()) / len(buffers)], {"refuted": "the garbage collector frees the others"}
    )


def judge_collecting(records: Records) -> Finding:
    return judge_sequential_memory(records, "collected")


SLOWDOWN = Premise("the slowdown", judge_slower_steps, at_least(SLOWER))

KEPT = Premise("memory that is kept", judge_sequential_memory, at_least(TWICE))

claim = partial(Claim, chapter=CHAPTER, article=ARTICLE)
cause_claim = partial(claim, section="Why: five suspects", premise=SLOWDOWN)
sequential_claim = partial(Claim, chapter=CHAPTER, section="One after another")
fix_claim = partial(claim, section="Our fix: a thread budget, and a launcher that keeps to it", premise=SLOWDOWN)

CLAIMS = [
    claim(
        "PT1",
        "The gradient step slows down as processes are added",
        section="See it slow down",
        judge=judge_slower_steps,
        rule=at_least(SLOWER),
    ),
    cause_claim(
        "PT2",
        "The gradient step slows down because autograd has a lock that all processes share",
        judge=judge_lock,
        rule=because_of(),
    ),
    cause_claim(
        "PT3",
        "Independent processes, started by a script, avoid the slowdown",
        judge=judge_scripts,
        rule=at_most(SLOWER),
    ),
    claim(
        "PT4",
        "No more processes than cores avoids the slowdown",
        section="See it slow down",
        judge=judge_fewer_processes,
        rule=at_most(SLOWER),
        premise=SLOWDOWN,
    ),
    claim(
        "PT5",
        "Ray or another framework avoids the slowdown",
        section="The article's fixes, and why some of them work",
        judge=judge_frameworks,
        rule=at_most(SLOWER),
        premise=SLOWDOWN,
    ),
    fix_claim(
        "PT6",
        "With the fix, throughput is nearly linear in processes, up to the number of cores",
        judge=judge_linear,
        rule=at_least(NEARLY_LINEAR),
    ),
    fix_claim(
        "PT7",
        "From 10 training runs on, a distributed framework is needed, and a specialized one above 100",
        judge=judge_framework_needed,
        rule=at_least(WASTE),
    ),
    sequential_claim(
        "PT8",
        "Runs one after another take more memory than a single one (DLR-RM/stable-baselines3#1966)",
        judge=judge_sequential_memory,
        rule=at_least(TWICE),
    ),
    sequential_claim(
        "PT9",
        "It is a leak: the memory of a run is never freed (as #1966 suspects)",
        judge=judge_never_freed,
        rule=at_least(1),
        premise=KEPT,
    ),
    sequential_claim(
        "PT10",
        "gc.collect() after each run frees its memory (our claim)",
        judge=judge_collecting,
        rule=at_most(1),
        premise=KEPT,
    ),
]
