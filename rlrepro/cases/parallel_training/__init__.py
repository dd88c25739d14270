"""Many Stable-Baselines3 trainings at once, and what slows them down: threads that spin while they wait.

Upstream: DLR-RM/stable-baselines3#1931. `SETTINGS` says how much each profile measures, `robots` makes the robots,
`training` is one training, `launch` the ways to start many, `claims` judges the article, `plots` draws.
"""

from dataclasses import dataclass

import lazy_loader

SB3 = "2.9.2"


@dataclass(frozen=True)
class Settings:
    """How much of everything one profile measures. A size is (steps of a rollout, epochs of the update)."""

    held_up: tuple[int, int]  # size of trainings that slow each other down
    at_pace: tuple[int, int]  # of those that do not
    throughput: tuple[int, int]  # of those whose throughput is compared with the ideal
    many: tuple[int, int]  # of a hundred
    ensemble: tuple[int, int]  # of those that an ensemble replaces
    members: tuple[int, ...]  # of ensembles whose gradient steps are timed
    sharing: tuple[int, ...]  # trainings at once on one GPU
    forwards: int  # passes without autograd
    repeats: int  # of what varies most: scripts, throughput, the ensemble
    methods: tuple[str, ...]  # of starting a Pool, besides fork
    frameworks: tuple[str, ...]  # "loky", and "ray", which takes long to start
    script_waves: tuple[int, ...]  # scripts at once, as multiples of the cores
    waves: tuple[int, ...]  # trainings whose throughput is compared, as multiples of the cores
    most: int  # processes, except where twice the cores are more

    def scripts(self, cores: int) -> list[int]:
        """How many scripts are started at once."""
        return sorted({1, *(times * cores for times in self.script_waves)})

    def processes(self, cores: int) -> list[int]:
        """How many trainings at once are tried on this many cores."""
        return sorted({1, cores, 2 * cores} | ({4 * cores} if 4 * cores <= self.most else set()))


NET = 512  # width of both hidden layers
SMALL_NET = 64  # Stable-Baselines3's default
HUNDRED = 100
MEMBERS = 32

SETTINGS = {
    "smoke": Settings(
        held_up=(64, 4),
        at_pace=(128, 10),
        throughput=(384, 5),
        many=(64, 6),
        ensemble=(256, 10),
        members=(1, 8, 64),
        sharing=(1, 2, 4),
        forwards=60,
        repeats=1,
        methods=("forkserver",),
        frameworks=("loky",),
        script_waves=(2,),
        waves=(4,),
        most=16,
    ),
    "full": Settings(
        held_up=(256, 10),
        at_pace=(1024, 10),
        throughput=(2048, 10),
        many=(512, 10),
        ensemble=(2048, 10),
        members=(1, 4, 16, 64, 256),
        sharing=(1, 2, 4, 8),
        forwards=500,
        repeats=3,
        methods=("spawn", "forkserver"),
        frameworks=("loky", "ray"),
        script_waves=(1, 2),
        waves=(1, 4),
        most=32,
    ),
}

ON_CUDA = {profile: {"members": (1, 4, 16, 64, 256, 1024)} for profile in SETTINGS}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["ensemble_timing", "launch", "plots", "recording", "robots", "thread_sampler", "training"],
    submod_attrs={"claims": ["CLAIMS"]},
)
