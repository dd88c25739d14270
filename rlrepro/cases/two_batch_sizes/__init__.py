"""tianshou's two parameters called batch size: `max_batchsize` and the trainer's `batch_size`.

Upstream: thu-ml/tianshou#1168 calls them "a bit confusing".
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "01_two_batch_sizes"
BUGGY, NEWEST = "1.0.0", "2.0.1"
STAGES = ("collect", "returns", "logp_old", "learn")
ARTICLE_GIB = 8  # of the article's card


@dataclass(frozen=True)
class Settings:
    """How much a profile measures. Sizes are numbers of transitions."""

    network: str
    rollout: int
    gib: float  # of the card on which updates are run
    max_batchsizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    profile_sizes: tuple[int, int, int]  # (rollout, max_batchsize, batch_size) of the update drawn over time
    envs: int  # of the collector's step
    collect_releases: tuple[str, ...]
    planned_sizes: tuple[tuple[int, int, int], ...]  # (rollout, max_batchsize, batch_size) of plans compared with runs


SETTINGS = {
    "tiny": Settings(
        network="residual",
        rollout=64,
        gib=0.08,
        max_batchsizes=(8, 64),
        batch_sizes=(8, 32),
        profile_sizes=(64, 16, 16),
        envs=64,
        collect_releases=(BUGGY, NEWEST),
        planned_sizes=((64, 32, 16),),
    ),
    "smoke": Settings(
        network="residual",
        rollout=64,
        gib=0.08,
        max_batchsizes=(8, 32, 64),
        batch_sizes=(8, 32),
        profile_sizes=(64, 16, 16),
        envs=64,
        collect_releases=(BUGGY, "1.1.0", "1.2.0", NEWEST),
        planned_sizes=((64, 8, 8), (64, 32, 16)),
    ),
    "full": Settings(
        network="residual",
        rollout=10_000,
        gib=ARTICLE_GIB,
        max_batchsizes=(64, 4096),
        batch_sizes=(512, 4096),
        profile_sizes=(512, 256, 256),
        envs=64,
        collect_releases=(BUGGY, "1.1.0", "1.2.0", NEWEST),
        planned_sizes=((4096, 64, 64), (4096, 256, 256), (4096, 4096, 512)),
    ),
}
_CARD = {
    "rollout": 2048,
    "gib": 1.0,
    "max_batchsizes": (128, 512, 2048),
    "batch_sizes": (64, 512),
    "profile_sizes": (512, 64, 64),
    "planned_sizes": ((2048, 64, 64), (2048, 512, 256)),
}
ON_CUDA = {"tiny": _CARD, "smoke": _CARD}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["measure", "plots", "workloads"],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
