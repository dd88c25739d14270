"""How fast a run progressed, so that two runs of one command can be compared."""

from dataclasses import dataclass

from rlrepro.doctor.live.activity import (
    LEARNING,
    LEARNS,
    SAMPLING,
    STEPS,
    UNITS,
    Activity,
    active_seconds,
    total,
    training,
)
from rlrepro.doctor.live.notes import Notes


@dataclass(frozen=True)
class Progress:
    """What a run did in the wall seconds in which any of its processes trained; imports do not count."""

    seconds: float
    completed: Activity  # all processes together

    @classmethod
    def of(cls, notes: Notes) -> "Progress":
        active = training(notes.activities.values())
        return cls(active_seconds(active), total(active))

    @property
    def busy_seconds(self) -> float:
        """The sum over all processes."""
        return sum(self.completed.seconds) + self.completed.watching_seconds

    @property
    def watched(self) -> float:
        """The share of the time for which nothing is estimated."""
        return 1 - self.completed.estimated_seconds / self.busy_seconds if self.busy_seconds else 1.0

    @property
    def processes(self) -> int:
        """How many trained at a time, on average."""
        return max(1, round(self.busy_seconds / self.seconds)) if self.seconds else 0

    def unit(self) -> str | None:
        """What to count: gradient steps if there are any, otherwise what takes most of the time."""
        counts = self.completed.counts
        if not counts:
            return None
        return LEARNS if LEARNS in counts else max(counts, key=lambda unit: self.completed.seconds[UNITS[unit]])

    def rate(self, unit: str, steps_per_gradient_step: float | None = None) -> float:
        """The number per second. If the number of environment steps per gradient step is given, the rate is as if the
        run had that mix of both: a run that ended early may have collected much and learned little so far."""
        count, steps = self.completed.counts[unit], self.completed.counts.get(STEPS, 0)
        if unit != LEARNS or not steps_per_gradient_step or not steps:
            return count / self.seconds
        learning = self.completed.seconds[LEARNING] + self.completed.seconds[SAMPLING]
        seconds = learning / count + (self.busy_seconds - learning) / steps * steps_per_gradient_step
        return self.busy_seconds / self.seconds / seconds


class NothingToCompare(ValueError):
    """Two runs have nothing in common that could be counted."""


def compare(before: Notes, after: Notes) -> tuple[str, float, float]:
    """(unit, rate before, rate after), both for the mix of environment and gradient steps of the run that got further.
    Raises NothingToCompare."""
    runs = Progress.of(before), Progress.of(after)
    units = [run.unit() for run in runs]
    if None in units or units[0] != units[1]:
        names = " and ".join("nothing" if unit is None else unit for unit in units)
        raise NothingToCompare(f"the runs can't be compared: they have {names} to count; let them run for longer")
    unit = units[0]
    counts = max(runs, key=lambda run: run.completed.counts[unit]).completed.counts
    mix = counts.get(STEPS, 0) / counts[unit]
    return unit, runs[0].rate(unit, mix), runs[1].rate(unit, mix)
