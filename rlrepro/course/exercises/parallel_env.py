"""Exercises of chapter 9: ParallelEnv's parent."""

from rlrepro.cases.parallel_env import LONG, NEWEST
from rlrepro.course.exercises.core import Hint, exercise, how_far, near


@exercise("9.1")
def wasted(my_seconds, records):
    """A function of (records, steps): CPU seconds that the newest release's parent spends on `steps` steps of LONG."""
    setting = {"release": NEWEST, "wait": "theirs", "seconds": LONG}
    step, busy = (records.get(f"parallel_env.{name}", **setting).value for name in ("step", "parent_cpu"))
    for steps in (1_000, 1_000_000):
        expected = steps * step * busy
        if not near(actual := my_seconds(records, steps), expected):
            raise Hint(
                f"For {steps:,} steps, {actual:,.0f} s is {how_far(actual, expected)}. How long do the steps take, and "
                "for what share of that time does the parent compute?"
            )


@exercise("9.2")
def longest_step_awake(my_limit, records):
    """A function of (wake_up, allowed): seconds of the longest step of which waking up costs more than `allowed`."""
    for wake_up, allowed in ((50e-6, 0.025), (50e-6, 0.05), (5e-6, 0.01)):
        expected = wake_up / allowed
        if not near(actual := my_limit(wake_up, allowed), expected):
            raise Hint(
                f"If waking up takes {wake_up * 1e6:.0f} µs and may cost {allowed:.1%} of a step, "
                f"{actual * 1e6:,.0f} µs is {how_far(actual, expected)}. At the right length, waking up "
                "costs exactly that share."
            )


@exercise("9.3")
def cores_for_environments(my_cores, records):
    """A function of (cores, runs, polls): how many cores are left for environments."""
    for cores, runs, polls in ((8, 2, True), (8, 2, False), (4, 6, True), (1, 1, True)):
        expected = max(0, cores - runs) if polls else cores
        if (actual := my_cores(cores, runs, polls)) != expected:
            raise Hint(
                f"{runs} runs on {cores} cores, with parents that {'poll' if polls else 'sleep'}: {actual} is not "
                "right. Each run has one parent, and there can't be fewer than zero cores left."
            )
