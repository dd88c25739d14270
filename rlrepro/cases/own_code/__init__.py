"""Chapter 7: a small project that has the problems of all chapters, and the doctor that finds and fixes them.

`sample_project/` is four scripts and their requirements. The doctor reads and runs them; nothing imports them.
`workloads` runs them, `costs` has the problems that no other chapter measures, `measure` records what both cost.
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "07_your_own_code"
CLAIMS = ()  # no article is about this project


@dataclass(frozen=True)
class Settings:
    """Sizes of the sample project's scripts, and how often costs are timed."""

    rollout: int  # timesteps of ppo.py
    written: int  # timesteps that world_model.py stores at a time
    steps: int  # environment steps of each training run of sweep.py
    side_by_side: tuple[str, ...]  # scripts that run at the same time; the others run alone, since they are timed
    repeats: int  # pairs of timings for each cost


SETTINGS = {
    "tiny": Settings(
        rollout=1024,
        written=500_000,
        steps=64,
        side_by_side=("ppo.py", "recommender.py", "world_model.py", "sweep.py"),
        repeats=3,
    ),
    "smoke": Settings(rollout=2048, written=1_000_000, steps=128, side_by_side=("ppo.py", "recommender.py"), repeats=7),
    "full": Settings(rollout=2048, written=1_000_000, steps=128, side_by_side=("ppo.py", "recommender.py"), repeats=7),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["costs", "measure", "plots", "workloads"], submod_attrs={"records": ["RECORDS"]}
)
