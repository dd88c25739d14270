"""TorchRL's ParallelEnv: its parent keeps a core busy while it waits for its workers, since 0.12.0 once more.

Upstream: commit d64b43867 (pytorch/rl#3457), first released in 0.12.0; releases 0.7.1 to 0.10.1 polled in another way.
No thread names the problem, so the claims are sentences from that commit and our own. `workloads` runs under a release,
on `fixed_time` environments, `measure` runs it and records the results, `claims` judges, `plots` draws.
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "09_parallel_env"
SLEEPING, SPINNING, NEWEST = "0.11.1", "0.12.0", "0.14.1"
LONG = 20e-3  # seconds of the step at which waiting is nearly all that the parent does


@dataclass(frozen=True)
class Settings:
    """How much one profile measures. Seconds are those of one step of one environment."""

    steps: tuple[float, ...]  # of environments that compute, one for each core but the parent's
    block_seconds: float  # timed at a time; the ways to wait take turns
    blocks: int
    crowds: tuple[int, ...]  # environments at once, which all compute
    crowd_step: float
    runs: tuple[int, ...]  # training runs side by side
    run_workers: int  # environments of each
    run_seconds: float  # for which they are measured in each turn
    turns: int


SETTINGS = {
    "tiny": Settings((2e-4, LONG), 0.05, 3, (1, 4), 1e-3, (1, 2), 2, 0.3, 2),
    "smoke": Settings((5e-5, 2e-4, 1e-3, LONG), 0.05, 15, (1, 2, 4), 1e-3, (1, 2, 4), 2, 0.4, 2),
    "full": Settings(
        (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, LONG, 0.1),
        block_seconds=0.2,
        blocks=41,
        crowds=(1, 2, 4, 8),
        crowd_step=1e-3,
        runs=(1, 2, 4, 8),
        run_workers=2,
        run_seconds=2.0,
        turns=5,
    ),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["measure", "plots", "workloads"],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
