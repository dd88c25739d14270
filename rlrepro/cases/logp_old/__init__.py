"""PPO's logp_old: tianshou 0.4.11 to 1.0.0 computes it on the whole rollout at once.

Upstream: thu-ml/tianshou#1164, fixed in #1168, first released in 1.1.0. `SETTINGS` defines how much each profile
measures, `workloads` has the functions that run under a release, `measure` runs them and records the results, `claims`
judges the article, and `plots` draws the figures.
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "02_logp_old_oom"
BUGGY, FIXED, NEWEST = "1.0.0", "1.1.0", "2.0.1"
RELEASES = ("0.4.10", "0.4.11", "0.5.0", "0.5.1", "1.0.0", "1.1.0", "1.2.0", "2.0.0", "2.0.1")
OLDER = "0.5.1"  # the last release before 1.0.0


@dataclass(frozen=True)
class Settings:
    """How much one profile measures. `rows` are transitions of a rollout."""

    rows: tuple[int, ...]  # for growth with the rollout
    chunk_sizes: tuple[int, ...]  # for growth with max_batchsize
    chunk_rows: int  # the rollout for these
    max_batchsize: int  # everywhere else
    residual_rows: int  # for the second network
    residual_max_batchsize: int
    card_gib: float  # the virtual card of the opening scene
    card_rows: int
    card_network: str
    history_rows: int  # for the plot of what is live on a virtual card of `history_gib`
    history_gib: float
    releases: tuple[str, ...]  # compared on `release_rows`
    release_rows: int
    small_card_gib: float  # the virtual card for which the longest rollout is searched
    long_rows: int  # the rollout that the fixed release tries on it
    equality_rows: int
    equality_sizes: tuple[int, ...]  # max_batchsize at which results are compared
    training_updates: int  # each after 512 environment steps
    drift_updates: int  # the same, for runs whose weights are compared after each update
    timing_rows: int
    timing_repeats: int
    twin_rows: tuple[int, ...]  # for GAIL and ICM


SETTINGS = {
    "tiny": Settings(
        rows=(64, 128, 256, 512),
        chunk_sizes=(8, 32, 128),
        chunk_rows=128,
        max_batchsize=16,
        residual_rows=32,
        residual_max_batchsize=8,
        card_gib=0.1,
        card_rows=512,
        card_network="nature",
        history_rows=256,
        history_gib=0.05,
        releases=("0.4.11", OLDER, BUGGY, FIXED, NEWEST),
        release_rows=128,
        small_card_gib=0.125,
        long_rows=2_048,
        equality_rows=200,
        equality_sizes=(64, 7),
        training_updates=1,
        drift_updates=2,
        timing_rows=128,
        timing_repeats=3,
        twin_rows=(64, 256),
    ),
    "smoke": Settings(
        rows=(64, 128, 256, 512),
        chunk_sizes=(16, 64, 128, 256),
        chunk_rows=256,
        max_batchsize=32,
        residual_rows=64,
        residual_max_batchsize=16,
        card_gib=0.1,
        card_rows=512,
        card_network="nature",
        history_rows=256,
        history_gib=0.05,
        releases=RELEASES,
        release_rows=128,
        small_card_gib=0.125,
        long_rows=4_096,
        equality_rows=300,
        equality_sizes=(64, 7),
        training_updates=2,
        drift_updates=4,
        timing_rows=256,
        timing_repeats=15,
        twin_rows=(128, 512),
    ),
    "full": Settings(
        rows=(1024, 2048, 4096, 8192),
        chunk_sizes=(16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
        chunk_rows=4096,
        max_batchsize=64,
        residual_rows=1024,
        residual_max_batchsize=64,
        card_gib=8,
        card_rows=10_000,
        card_network="residual",
        history_rows=8192,
        history_gib=1.5,
        releases=RELEASES,
        release_rows=512,
        small_card_gib=1,
        long_rows=110_000,
        equality_rows=1000,
        equality_sizes=(1024, 256, 64, 16, 8, 7, 3),
        training_updates=20,
        drift_updates=20,
        timing_rows=4096,
        timing_repeats=9,
        twin_rows=(1024, 2048, 4096),
    ),
}
_LARGER = {  # sizes whose memory exceeds the tens of megabytes that the GPU libraries reserve for themselves
    "rows": (512, 1024, 2048, 4096),
    "chunk_sizes": (16, 64, 256, 512),
    "chunk_rows": 512,
    "max_batchsize": 64,
    "residual_rows": 256,
    "residual_max_batchsize": 64,
    "card_gib": 0.75,
    "card_rows": 4096,
    "history_rows": 8192,
    "history_gib": 1.5,
    "release_rows": 512,
    "small_card_gib": 1,
    "long_rows": 25_000,
    "twin_rows": (256, 4096),
}
ON_CUDA = {"tiny": _LARGER, "smoke": _LARGER}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["measure", "plots", "workloads"],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
