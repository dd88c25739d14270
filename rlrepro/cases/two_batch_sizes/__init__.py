"""tianshou's two parameters called batch size: `max_batchsize` and the trainer's `batch_size`.

Upstream: thu-ml/tianshou#1168 calls it "a bit confusing". `SETTINGS` says how much each profile measures, `measure`
holds what is run under a release, `claims` judges the article, `plots` draws.
"""

from dataclasses import dataclass

import lazy_loader

BUGGY, NEWEST = "1.0.0", "2.0.1"
STAGES = ("collect", "returns", "logp_old", "learn")
ARTICLE_GIB = 8  # of the article's card


@dataclass(frozen=True)
class Settings:
    """How much of everything one profile measures. Sizes are rows."""

    network: str
    rows: int  # of the rollout
    gib: float  # of the card on which updates are run
    max_batchsizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    profile_sizes: tuple[int, int]  # (max_batchsize, batch_size) of the picture over time
    planned_sizes: tuple[tuple[int, int], ...]  # such pairs, at which a plan is held against a run


SETTINGS = {
    "smoke": Settings(
        network="residual",
        rows=64,
        gib=0.08,
        max_batchsizes=(8, 32, 64),
        batch_sizes=(8, 32),
        profile_sizes=(16, 16),
        planned_sizes=((8, 8), (32, 16)),
    ),
    "full": Settings(
        network="residual",
        rows=10_000,
        gib=ARTICLE_GIB,
        max_batchsizes=(64, 4096),
        batch_sizes=(512, 4096),
        profile_sizes=(256, 256),
        planned_sizes=((64, 64), (256, 256), (4096, 512)),
    ),
}
ON_CUDA = {
    "smoke": {
        "rows": 2048,
        "gib": 1.0,
        "max_batchsizes": (128, 512, 2048),
        "batch_sizes": (64, 512),
        "profile_sizes": (64, 64),
        "planned_sizes": ((64, 64), (512, 256)),
    }
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["measure", "plots"], submod_attrs={"claims": ["CLAIMS"]}
)
