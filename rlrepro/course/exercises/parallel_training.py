"""Exercises of chapter 4: many training runs at once."""

import os
import subprocess
import sys

from rlrepro.course.exercises.core import Hint, exercise
from rlrepro.fixes import thread_variables
from rlrepro.lab.limits import ANSWER_SECONDS, waiting_for

SUSPECTS = {
    "scripts that share no process are slowed down as well": "GIL",
    "the CPU time of a gradient step rises": "lock",
    "with one thread each, more processes than cores get their share": "cores",
    "a network that fits into the cache is slowed down as well": "bandwidth",
}


@exercise("4.1")
def threads(my_threads, records):
    """A function of (cores, runs): threads for each of `runs` runs at once."""
    for cores, runs in ((64, 16), (8, 16), (8, 3), (2, 1)):
        if (actual := my_threads(cores, runs)) != max(1, cores // runs):
            raise Hint(
                f"{cores} cores and {runs} runs: {actual} is not right. Remember that a run needs at least one thread."
            )


@exercise("4.2")
def what_rules_out(my_suspects, records):
    """The suspect that each observation rules out."""
    if missing := SUSPECTS.keys() - my_suspects.keys():
        raise Hint(f"There is no answer yet for: {'; '.join(sorted(missing))}.")
    if wrong := [observation for observation, suspect in SUSPECTS.items() if my_suspects[observation] != suspect]:
        raise Hint(f"Which suspect predicts the opposite of this? {'; '.join(wrong)}.")


@exercise("4.3")
def share_of_spinning(my_share, records):
    """A function of records: the share of a gradient step's CPU time that computed nothing, at the most processes."""
    steps = {
        threads: records.series(
            "parallel_training.step_cpu", "processes", way="pool", net="large", threads=threads, waits="default"
        )
        for threads in ("default", "one")
    }
    largest = max(steps["default"])
    expected = 1 - steps["one"][largest] / steps["default"][largest]
    if abs((share := my_share(records)) - max(0, expected)) > 0.02:
        raise Hint(
            f"{share:.2f} is too {'large' if share > expected else 'small'}. With {largest} runs, compare `step_cpu` "
            "with torch's own threads and with one thread; the difference computed nothing."
        )


@exercise("4.4")
def environment(my_environment, records):
    """Environment variables with which torch computes with one thread, before anything is imported."""
    script = "import torch; print(torch.get_num_threads())"
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    variables = {name: str(value) for name, value in my_environment.items()}
    with waiting_for("a process with that environment", ANSWER_SECONDS) as timeout:
        completed = subprocess.run(
            [sys.executable, "-c", script],
            env=inherited | variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
    if completed.returncode:
        raise Hint(f"With it, Python does not start: {completed.stderr.strip().splitlines()[-1]}")
    if completed.stdout.strip() != "1":
        raise Hint(f"A process with that environment computes with {completed.stdout.strip()} threads.")
    if thread_variables(1).keys().isdisjoint(variables):  # with one core there is one thread anyway
        raise Hint("None of these variables sets torch's number of threads.")
