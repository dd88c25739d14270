"""rlrepro doctor --run --try: run the same command again with a fix in its environment, and compare their speed.

The command runs unchanged before and after these runs, since a single run says little if its processes compete: how far
they get then varies from run to run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.progress import NothingToCompare, Progress, compare
from rlrepro.doctor.live.report import Report
from rlrepro.lab.units import number

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
ALIKE = 1.15  # a smaller ratio to any of the unchanged runs means nothing
LEAST_SECONDS = 30.0  # that a repeated run may take, with its imports
CAUTION = "             each variant ran once, between unchanged runs: differences no larger than theirs may be chance"


@dataclass(frozen=True)
class Trial:
    """A run with these variables. `before` is the number of `unit` per second in each unchanged run, `after` in this
    one. If they can't be compared, all three are None, and `remark` has the reason. `remark` may also be that the
    variables had no effect."""

    variables: dict[str, str]
    unit: str | None = None
    before: tuple[float, ...] | None = None
    after: float | None = None
    remark: str | None = None

    @property
    def ratio(self) -> float | None:
        """The speed relative to the geometric mean of the unchanged runs."""
        return None if self.unit is None else self.after / geometric_mean(self.before)

    def __str__(self) -> str:
        parts = [] if self.unit is None else [f"{self._compared()} ({self._numbers()})"]
        parts += [self.remark] * (self.remark is not None)
        return f"{' '.join(f'{name}={value}' for name, value in self.variables.items())}: {'; '.join(parts)}"

    def _numbers(self) -> str:
        return f"{' and '.join(f'{number(rate)}' for rate in self.before)}, now {number(self.after)}"

    def _compared(self) -> str:
        if min(self.before) / ALIKE < self.after < max(self.before) * ALIKE:
            return f"about as many {self.unit} per second"
        return f"{number(self.ratio)} times as many {self.unit} per second"


def variants(report: Report) -> list[dict[str, str]]:
    """The variables to try after a run: a number of threads that leaves each process its share of the cores (one, if
    each already had no more than its share), and threads that sleep while they wait."""
    progress = Progress.of(report.notes)
    if progress.unit() is None:
        return []
    budget, threads = max(1, report.crowd.cores // progress.processes), _threads(report)
    if threads == 1:
        return []
    budget = 1 if threads is not None and threads <= budget else budget
    return [dict.fromkeys(THREADS, str(budget)), dict(ASLEEP)]


def try_variants(
    command: Sequence[str], report: Report, *, folder: str | Path = ".", seconds: float | None = None, stdout=None
) -> list[Trial]:
    """Run the command again with each of the variants, and then unchanged, each for at most as long as the first
    run."""
    limit = seconds or max(LEAST_SECONDS, report.seconds)

    def run_again(environment: dict[str, str]) -> tuple[Report, int]:
        return run(command, folder=folder, seconds=limit, stdout=stdout, environment=environment)

    runs = [(variables, *run_again(variables)) for variables in variants(report)]
    if all(status for _, _, status in runs):
        return [_failed(variables, status) for variables, _, status in runs]
    last, failed = run_again({})
    unchanged = [report, last] if not failed and Progress.of(last.notes).unit() else [report]
    return [
        _failed(variables, status) if status else _trial(variables, unchanged, changed)
        for variables, changed, status in runs
    ]


def why_not(report: Report) -> str:
    """Why there was nothing to try."""
    if Progress.of(report.notes).unit() is None:
        return "nothing to try: no gradient step, environment step or sample was observed"
    return "nothing to try: each process already has one thread"


def _failed(variables: dict[str, str], status: int) -> Trial:
    return Trial(variables, remark=f"failed with status {status}")


def _trial(variables: dict[str, str], unchanged: Sequence[Report], changed: Report) -> Trial:
    try:
        compared = [compare(report.notes, changed.notes) for report in unchanged]
    except NothingToCompare as error:
        return Trial(variables, remark=str(error))
    unit, _, after = compared[0]
    before = tuple(after * old / new for _, old, new in compared)  # all for the same mix of steps
    return Trial(variables, unit, before, after, _no_effect(variables, _threads(changed)))


def _no_effect(variables: dict[str, str], threads: int | None) -> str | None:
    requested = variables.get(THREADS[0])
    if requested is None or threads is None or threads == int(requested):
        return None
    return f"the variable had no effect: a process had {threads} threads, from set_num_threads or its environment"


def _threads(report: Report) -> int | None:
    """The number of torch's threads in the process that has the most."""
    return max(report.notes.torch_threads.values(), default=None)
