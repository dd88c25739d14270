"""What a thread spent its time on, and how far it got."""

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
}  # by the kind of work that they are counted in


@dataclass
class Activity:
    """One thread from its first watched call to its last. `began` and `ended` are seconds of a clock that all processes
    of this machine share. `seconds`, in the order of KINDS, and `watching_seconds` add up to the time between them.
    """

    began: float = 0.0  # 0 for a thread that has made no watched call
    ended: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [0.0] * len(KINDS))
    undecided: list[float] = field(default_factory=lambda: [0.0, 0.0])  # forward passes, and what followed them
    watching_seconds: float = 0.0  # in the watch's own probes, which time themselves
    estimated_seconds: float = 0.0  # while the watch rested; `seconds` are estimates for this time
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by unit
    points: list[tuple[float, list[float]]] = field(default_factory=list)  # the clock, and `seconds` until then

    def copy(self) -> "Activity":
        """The current state, without the points."""
        return replace(self, seconds=list(self.seconds), counts=self.counts.copy(), points=[])

    def since(self, before: "Activity") -> "Activity":
        """The seconds and counts since an earlier copy was made."""
        seconds = [new - old for new, old in zip(self.seconds, before.seconds, strict=True)]
        counts = defaultdict(int, {unit: count - before.counts[unit] for unit, count in self.counts.items()})
        return Activity(seconds=seconds, counts=counts)

    @property
    def learns(self) -> bool:
        """Whether the thread used a network; a worker that only steps environments for another process does not."""
        return self.seconds[LEARNING] + self.seconds[INFERENCE] + self.undecided[0] > 0


def training(activities: Iterable[Activity]) -> list[Activity]:
    """The activities that use networks; if none does, all that did anything."""
    active = [activity for activity in activities if activity.began]
    return [activity for activity in active if activity.learns] or active


def total(activities: Iterable[Activity]) -> Activity:
    """All activities together: the earliest start, the latest end, and the sums of their seconds and counts."""
    result = Activity(began=float("inf"))
    for activity in activities:
        result.began, result.ended = min(result.began, activity.began), max(result.ended, activity.ended)
        result.seconds = [a + b for a, b in zip(result.seconds, activity.seconds, strict=True)]
        result.seconds[INFERENCE] += activity.undecided[0]
        result.seconds[REST] += activity.undecided[1]
        result.watching_seconds += activity.watching_seconds
        result.estimated_seconds += activity.estimated_seconds
        for unit, count in activity.counts.items():
            result.counts[unit] += count
    return result


def active_seconds(activities: Iterable[Activity]) -> float:
    """Wall seconds in which at least one activity was between its start and its end."""
    seconds, until = 0.0, 0.0
    for activity in sorted(activities, key=lambda activity: activity.began):
        seconds += max(0.0, activity.ended - max(activity.began, until))
        until = max(until, activity.ended)
    return seconds
