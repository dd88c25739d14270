"""Many Stable-Baselines3 training runs at once, and what slows them down: threads that spin while they wait.

Upstream: DLR-RM/stable-baselines3#1931. `training` is one run, `launch` has the ways to start many, `robots` makes
their robots, `ensemble_timing` times ensembles; `measure` runs all of these for the chapter.
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "04_parallel_training"
SB3 = "2.9.2"


@dataclass(frozen=True)
class Settings:
    """How much of everything one profile measures. A size is (steps of a rollout, epochs of the update)."""

    slowed_down: tuple[int, int]  # size of runs that slow each other down, and of the sweep that is compared with them
    at_pace: tuple[int, int]  # size of runs that do not slow each other down
    small: tuple[int, int]  # the same with the small network: long enough for the system to switch between the runs
    sweep: int  # runs passed to `train_many`
    alone: int  # runs, one after the other, that the sweep's throughput is compared with
    ensemble: tuple[int, int]  # size of the runs that an ensemble replaces
    members: tuple[int, ...]  # of ensembles whose gradient steps are timed
    sharing: tuple[int, ...]  # processes at once on one GPU
    forwards: int  # passes without autograd
    sequential: tuple[int, int]  # runs one after another in a process, and the timesteps of each
    repeats: int  # of what varies most: scripts and the ensemble
    methods: tuple[str, ...]  # of starting a Pool, besides fork
    frameworks: tuple[str, ...]  # "loky", and "ray", which takes long to start
    launches: int  # with a process per core, and half as many with the most processes: the slowdown differs by launch
    script_waves: tuple[int, ...]  # scripts at once, as multiples of the cores
    max_processes: int  # with four processes per core; two per core are always tried

    def processes(self, cores: int) -> list[int]:
        """The numbers of runs at once to try on this many cores."""
        return sorted({1, cores, 2 * cores} | ({4 * cores} if 4 * cores <= self.max_processes else set()))


NET = 512  # width of both hidden layers
SMALL_NET = 64  # Stable-Baselines3's default
MEMBERS = 32

SETTINGS = {
    "tiny": Settings(
        slowed_down=(64, 2),
        at_pace=(64, 5),
        small=(64, 40),
        sweep=40,
        alone=3,
        ensemble=(64, 5),
        members=(1, 16),
        sharing=(1, 2),
        forwards=20,
        sequential=(6, 128),
        repeats=1,
        methods=(),
        frameworks=("loky",),
        launches=1,
        script_waves=(1,),
        max_processes=0,
    ),
    "smoke": Settings(
        slowed_down=(64, 4),
        at_pace=(64, 10),
        small=(64, 80),
        sweep=100,
        alone=6,
        ensemble=(128, 10),
        members=(1, 8, 64),
        sharing=(1, 2, 4),
        forwards=60,
        sequential=(12, 128),
        repeats=2,
        methods=("forkserver",),
        frameworks=("loky",),
        launches=4,
        script_waves=(1,),
        max_processes=16,
    ),
    "full": Settings(
        slowed_down=(256, 10),
        at_pace=(1024, 10),
        small=(1024, 10),
        sweep=100,
        alone=10,
        ensemble=(2048, 10),
        members=(1, 4, 16, 64, 256, 1024),
        sharing=(1, 2, 4, 8),
        forwards=500,
        sequential=(16, 256),
        repeats=3,
        methods=("spawn", "forkserver"),
        frameworks=("loky", "ray"),
        launches=4,
        script_waves=(1, 2),
        max_processes=32,
    ),
}

ON_CUDA = {"smoke": {"members": (1, 4, 16, 64, 256, 1024)}}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "ensemble_timing",
        "launch",
        "measure",
        "plots",
        "robots",
        "sequential",
        "tables",
        "thread_sampler",
        "training",
    ],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
