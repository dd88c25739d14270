"""rlrepro doctor --run --try: the same command again with a fix in its environment, and how fast each got ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.progress import NothingToCompare, Progress, compare
from rlrepro.doctor.live.report import Report

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
ALIKE = 1.15  # one run of each: a smaller ratio says nothing
LEAST_SECONDS = 30.0  # that a run again may take, with its imports
CAUTION = "             each variant ran once, one after another: small differences may be chance"


@dataclass(frozen=True)
class Trial:
    """A run with these variables. `unit`, and how many there were per second `before` and `after`, are None where that
    can't be said; then `remark` says why. It may also say that the variables had no effect."""

    variables: dict[str, str]
    unit: str | None = None
    before: float | None = None
    after: float | None = None
    remark: str | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.unit is None else self.after / self.before

    def __str__(self) -> str:
        said = [] if self.unit is None else [f"{self._compared()} ({self.before:,.3g}, now {self.after:,.3g})"]
        said += [self.remark] * (self.remark is not None)
        return f"{' '.join(f'{name}={value}' for name, value in self.variables.items())}: {'; '.join(said)}"

    def _compared(self) -> str:
        if 1 / ALIKE < self.ratio < ALIKE:
            return f"about as many {self.unit} per second"
        return f"{self.ratio:,.3g} times as many {self.unit} per second"


def variants(report: Report) -> list[dict[str, str]]:
    """The variables to try, by what was seen of a run: as many threads as leave each process its share of the cores
    (one, if it had no more than that), and threads that sleep while they wait."""
    progress = Progress.of(report.notes)
    if progress.unit() is None:
        return []
    budget, had = max(1, report.crowd.cores // progress.processes), _threads(report)
    if had == 1:
        return []
    budget = 1 if had is not None and had <= budget else budget
    return [dict.fromkeys(THREADS, str(budget)), dict(ASLEEP)]


def try_variants(
    command: Sequence[str], report: Report, *, folder: str | Path = ".", seconds: float | None = None, stdout=None
) -> list[Trial]:
    """Run the command again with each of the variants, for at most as long as it was seen to run."""
    limit = seconds or max(LEAST_SECONDS, report.seconds)
    return [_try(command, report, each, folder, limit, stdout) for each in variants(report)]


def why_not(report: Report) -> str:
    """Why there was nothing to try."""
    if Progress.of(report.notes).unit() is None:
        return "nothing to try: no gradient step, environment step or sample was observed"
    return "nothing to try: each process already has one thread"


def _try(command, report, variables, folder, seconds, stdout) -> Trial:
    again, status = run(command, folder=folder, seconds=seconds, stdout=stdout, environment=variables)
    if status:
        return Trial(variables, remark=f"failed with status {status}")
    try:
        unit, before, after = compare(report.notes, again.notes)
    except NothingToCompare as why:
        return Trial(variables, remark=str(why))
    return Trial(variables, unit, before, after, _no_effect(variables, _threads(again)))


def _no_effect(variables: dict[str, str], threads: int | None) -> str | None:
    asked = variables.get(THREADS[0])
    if asked is None or threads is None or threads == int(asked):
        return None
    return f"the variable had no effect: a process had {threads} threads, from set_num_threads or its environment"


def _threads(report: Report) -> int | None:
    """torch's threads in the process that has the most."""
    return max(report.notes.torch_threads.values(), default=None)
