"""tianshou's two parameters called batch size: `max_batchsize` and the trainer's `batch_size`.

Upstream: thu-ml/tianshou#1168 calls them "a bit confusing".
"""

from dataclasses import dataclass, replace

import lazy_loader

CHAPTER = "01_two_batch_sizes"
BUGGY, NEWEST = "1.0.0", "2.0.1"
STAGES = ("collect", "returns", "logp_old", "learn")
ARTICLE_GIB = 8  # of the article's GPU


@dataclass(frozen=True)
class Settings:
    """How much a profile measures. Sizes are numbers of transitions."""

    network: str
    rollout: int
    gib: float  # of the virtual card on which updates are run
    max_batchsizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    profile_sizes: tuple[int, int, int]  # (rollout, max_batchsize, batch_size) of the update plotted over time
    planned_sizes: tuple[tuple[int, int, int], ...]  # the same, for plans compared with runs
    envs: int = 64  # of one step of the collector
    collect_releases: tuple[str, ...] = (BUGGY, "1.1.0", "1.2.0", NEWEST)
    grid_sizes: tuple[int, ...] = (64, 256, 1024, 4096, 10_000)  # of the planned grid
    cameras: tuple[str, ...] = ("Nature, 84×84", "residual, 240×320", "residual ×3, 480×640")


SMOKE = Settings(
    network="residual",
    rollout=32,
    gib=0.053,
    max_batchsizes=(4, 16, 32),
    batch_sizes=(4, 16),
    profile_sizes=(32, 8, 8),
    planned_sizes=((32, 4, 4), (32, 16, 8)),
)
SETTINGS = {
    "tiny": replace(
        SMOKE,
        max_batchsizes=(4, 32),
        planned_sizes=((32, 16, 8),),
        envs=16,
        collect_releases=(BUGGY, NEWEST),
        grid_sizes=(64, 1024, 10_000),
        cameras=("Nature, 84×84", "residual ×3, 480×640"),
    ),
    "smoke": SMOKE,
    "full": Settings(
        network="residual",
        rollout=10_000,
        gib=ARTICLE_GIB,
        max_batchsizes=(64, 4096),
        batch_sizes=(512, 4096),
        profile_sizes=(512, 256, 256),
        planned_sizes=((4096, 64, 64), (4096, 256, 256), (4096, 4096, 512)),
    ),
}
ON_CARD = {
    "rollout": 2048,
    "gib": 1.0,
    "max_batchsizes": (128, 512, 2048),
    "batch_sizes": (64, 512),
    "profile_sizes": (512, 64, 64),
    "planned_sizes": ((2048, 64, 64), (2048, 512, 256)),
}
ON_CUDA = {"tiny": ON_CARD, "smoke": ON_CARD}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["measure", "plots", "workloads"],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
