"""What the threads of some processes did together."""

from dataclasses import dataclass


@dataclass
class Crowd:
    """Seen in looks from outside.

    The means are over the looks at which more threads wanted a core than there are, `crowded_looks`. `spinning` is the
    share of those threads that waited in a loop; None where nobody could tell.
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
    def spinning_share(self) -> float | None:
        """Of the threads that wanted a core, at any look, the share that spun; None where nobody could tell. Where they
        were not too many nobody looked, and none counts."""
        if not self.looks or (self.crowded_looks and self.spinning is None):
            return None
        return (self.spinning or 0.0) * self.crowded_looks / self.looks
