"""Lab of chapter 9: `my_parallel_env(*args, **options)`, an environment to use in place of ParallelEnv."""

import time
from statistics import median

from rlrepro.cases.parallel_env import NEWEST
from rlrepro.cases.parallel_env.workloads import open_env, steps_late
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.lab import Release

STEP, BLOCKS, STEPS = 0.01, 5, 20  # seconds of an environment's step; turns; steps in each
SLOWER = 1.05  # times the step of ours
STILL = "How often does the parent look, and could something wake it instead?"


def trial(answer) -> Trial:
    with Release(f"torchrl=={NEWEST}") as newest:
        if (observed := newest.run(first_steps, answer)) != [1, 2, 3]:
            raise WrongResult(
                f"The first three steps should observe [1, 2, 3], but observe {observed}: whose flags were seen?"
            )
        cpu, step = newest.run(parent_seconds, answer)
        late = newest.run(steps_late, answer)
    slower, drawbacks = median(a / b for a, b in zip(step["yours"], step["ours"], strict=True)), []
    if slower > SLOWER:
        drawbacks.append(f"A step takes {slower:.2f} times as long as with ours: how late does the parent wake up?")
    if late:
        drawbacks.append(
            "After load_state_dict, transitions come a step late, as in the unfixed release: which flags are left?"
        )
    return Trial(cpu, "s", f"CPU time of the parent per step of {STEP * 1e3:.0f} ms", 5, tuple(drawbacks))


def first_steps(answer) -> list[int]:
    """What the first three steps observe, of environments that count them."""
    env = open_env(1, STEP, answer)
    observed = [int(env.step(env.rand_action())["next", "observation"].max()) for _ in range(3)]
    env.close()
    return observed


def parent_seconds(answer) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The parent's CPU seconds and the wall seconds of a step; the ways to wait are measured alternately."""
    envs = {
        variant: open_env(1, STEP, wait)
        for variant, wait in (("released", "theirs"), ("yours", answer), ("ours", "ours"))
    }
    cpu, wall = ({variant: [] for variant in envs} for _ in range(2))
    for turn in range(-1, BLOCKS):  # ours learns in the first how late it wakes up
        for variant, env in envs.items():
            action = env.rand_action()
            cpu_start, start = time.process_time(), time.perf_counter()
            for _ in range(STEPS):
                env.step(action)
            if turn >= 0:
                cpu[variant].append((time.process_time() - cpu_start) / STEPS)
                wall[variant].append((time.perf_counter() - start) / STEPS)
    for env in envs.values():
        env.close()
    return cpu, wall
