"""Chapter 7: a small project that has the problems of all chapters, and the doctor that finds and fixes them.

`sample_project/` has four scripts and their requirements, and in `newest/` three more for the newest releases. The
doctor reads and runs them; nothing imports them.
`workloads` runs them, `costs` has the problems that no other chapter measures, and `measure` records the costs of both.
"""

from dataclasses import dataclass, replace

import lazy_loader

CHAPTER = "07_your_own_code"
CLAIMS = ()  # no article is about this project


@dataclass(frozen=True)
class Settings:
    """Sizes of the sample project's scripts, which of them are run, and how often costs are timed."""

    rollout: int  # timesteps of ppo.py
    written: int  # timesteps that world_model.py stores at a time
    seeds: int  # training runs of sweep.py
    steps: int  # environment steps of each
    recorded: int  # transitions that newest/sac.py starts with
    runs: tuple[tuple[str, ...], ...]  # scripts that run at the same time, one group after another
    repeats: int  # pairs of timings for each cost


SMOKE = Settings(
    rollout=2048,
    written=1_000_000,
    seeds=4,
    steps=64,
    recorded=100_000,
    runs=(  # world_model.py and sweep.py are timed, so they run alone
        ("ppo.py", "recommender.py"),
        ("newest/sac.py", "newest/robots.py"),
        ("world_model.py",),
        ("sweep.py",),
    ),
    repeats=3,
)
TINY = replace(
    SMOKE,
    rollout=1024,
    written=500_000,
    seeds=2,
    recorded=50_000,
    runs=(("world_model.py",), ("sweep.py",)),
    repeats=1,
)
FULL = replace(SMOKE, runs=(*SMOKE.runs, ("newest/frames.py",)))  # Ray takes a while to start
SETTINGS = {"tiny": TINY, "smoke": SMOKE, "full": FULL}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["costs", "measure", "plots", "workloads"], submod_attrs={"records": ["RECORDS"]}
)
