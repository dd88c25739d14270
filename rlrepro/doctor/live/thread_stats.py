"""What the threads of some processes did together."""

from dataclasses import dataclass


@dataclass
class Crowd:
    """Sampled from outside. A thread *wants* a core while it is on one or ready for one.

    In `crowded_samples` of all `samples`, more threads wanted a core than there are cores; the means are over these. In
    `oversubscribed_seconds` of all `seconds`, at least two processes each had several such threads.
    """

    cores: int
    readable: bool = True  # whether threads can be read on this system
    samples: int = 0
    crowded_samples: int = 0
    seconds: float = 0.0
    oversubscribed_seconds: float = 0.0
    runnable: float = 0.0  # mean number of threads that want a core, while crowded
    busy_processes: float = 0.0  # mean number of their processes
    processes: int = 0  # the most at a time
    ran_seconds: float = 0.0
    waited_seconds: float | None = None  # for a core; None if unknown
