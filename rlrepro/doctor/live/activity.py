"""Where the time of a thread went, and how far it got."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

KINDS = ("environment", "inference", "learning", "sampling", "rest")
ENVIRONMENT, INFERENCE, LEARNING, SAMPLING, REST = range(len(KINDS))
LEARNS, STEPS = "gradient steps", "environment steps"
UNITS = {
    LEARNS: LEARNING,
    STEPS: ENVIRONMENT,
    "buffer samples": SAMPLING,
}  # and where they are made


@dataclass
class Activity:
    """One thread from its first watched call to its last. `began` and `ended` are seconds of a clock that all processes
    of this machine share. `seconds`, by the place in KINDS, and `watching_seconds` add up to the time between them.
    """

    began: float = 0.0  # 0 for a thread that has not called anything watched
    ended: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [0.0] * len(KINDS))
    undecided: list[float] = field(default_factory=lambda: [0.0, 0.0])  # forward passes, and what followed them
    watching_seconds: float = 0.0  # of the watch's own probes, which time themselves
    estimated_seconds: float = 0.0  # while the watch rested, for which `seconds` are estimates
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by unit
    points: list[tuple[float, list[float]]] = field(default_factory=list)  # the clock, and `seconds` until then

    def copy(self) -> "Activity":
        """As it is now, without the points."""
        return replace(self, seconds=list(self.seconds), counts=self.counts.copy(), points=[])

    def since(self, before: "Activity") -> "Activity":
        """The seconds and counts since it was as in this copy."""
        seconds = [new - old for new, old in zip(self.seconds, before.seconds, strict=True)]
        counts = defaultdict(int, {unit: count - before.counts[unit] for unit, count in self.counts.items()})
        return Activity(seconds=seconds, counts=counts)

    @property
    def learns(self) -> bool:
        """Whether it used a network; a worker that only steps environments for another process does not."""
        return self.seconds[LEARNING] + self.seconds[INFERENCE] + self.undecided[0] > 0


def training(activities: Iterable[Activity]) -> list[Activity]:
    """Those that use networks; where none does, all that did anything."""
    active = [each for each in activities if each.began]
    return [each for each in active if each.learns] or active


def total(activities: Iterable[Activity]) -> Activity:
    """All of them together: the earliest begin, the latest end, and the sums of what they spent and counted."""
    result = Activity(began=float("inf"))
    for each in activities:
        result.began, result.ended = min(result.began, each.began), max(result.ended, each.ended)
        result.seconds = [mine + yours for mine, yours in zip(result.seconds, each.seconds, strict=True)]
        result.seconds[INFERENCE] += each.undecided[0]
        result.seconds[REST] += each.undecided[1]
        result.watching_seconds += each.watching_seconds
        result.estimated_seconds += each.estimated_seconds
        for unit, count in each.counts.items():
            result.counts[unit] += count
    return result


def active_seconds(activities: Iterable[Activity]) -> float:
    """Wall seconds in which at least one of them was between its begin and its end."""
    seconds, until = 0.0, 0.0
    for each in sorted(activities, key=lambda each: each.began):
        seconds += max(0.0, each.ended - max(each.began, until))
        until = max(until, each.ended)
    return seconds
