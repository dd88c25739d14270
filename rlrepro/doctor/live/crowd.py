"""What the threads of some processes did together."""

from dataclasses import dataclass


@dataclass
class Crowd:
    """Seen in looks from outside.

    The means are over the looks at which more threads wanted a core than there are, `crowded_looks`. `spinning` is the
    share of the threads that wanted a core, in all looks, that only waited in a loop; None where nobody could tell.
    """

    cores: int
    looks: int = 0
    crowded_looks: int = 0
    runnable: float = 0.0  # threads that want a core, while crowded
    busy_processes: float = 0.0  # that they are of
    processes: int = 0  # at most at once
    ran_seconds: float = 0.0
    waited_seconds: float | None = None  # for a core
    spinning: float | None = None

    @property
    def spun_seconds(self) -> float | None:
        """About how long threads were on a core and only waited there."""
        return None if self.spinning is None else self.spinning * self.ran_seconds
