"""PPO's logp_old: tianshou 0.4.11 to 1.0.0 computes it on the whole rollout at once.

Upstream: thu-ml/tianshou#1164, mended in #1168, first released in 1.1.0. `SETTINGS` says how much each profile
measures, `measure` holds what is run under a release, `claims` judges the article, `plots` draws.
"""

from dataclasses import dataclass

import lazy_loader

BUGGY, FIXED, NEWEST = "1.0.0", "1.1.0", "2.0.1"
RELEASES = ("0.4.10", "0.4.11", "0.5.0", "0.5.1", "1.0.0", "1.1.0", "1.2.0", "2.0.0", "2.0.1")


@dataclass(frozen=True)
class Settings:
    """How much of everything one profile measures. Rows are rows of a rollout."""

    rows: tuple[int, ...]  # for growth with the rollout
    chunk_sizes: tuple[int, ...]  # for growth with max_batchsize
    chunk_rows: int  # the rollout that those are measured on
    max_batchsize: int  # everywhere else
    residual_rows: int  # for the second network
    card_gib: float  # the card of the opening scene
    card_rows: int
    card_network: str
    history_rows: int  # of the picture of what is live on a card of `history_gib`
    history_gib: float
    small_card_gib: float  # the card on which the largest rollout is searched
    long_rows: int  # the rollout then tried on the fixed release
    timing_rows: int
    timing_repeats: int
    training_steps: int  # collections of 512 environment steps
    equality_sizes: tuple[int, ...]  # max_batchsize at which results are compared
    twin_rows: tuple[int, ...]


SETTINGS = {
    "smoke": Settings(
        rows=(512, 1024, 2048, 4096),
        chunk_sizes=(16, 64, 256, 512),
        chunk_rows=512,
        max_batchsize=64,
        residual_rows=256,
        card_gib=0.75,
        card_rows=4_096,
        card_network="nature",
        history_rows=1024,
        history_gib=0.2,
        small_card_gib=0.25,
        long_rows=25_000,
        timing_rows=512,
        timing_repeats=5,
        training_steps=5,
        equality_sizes=(64, 7),
        twin_rows=(256, 4096),
    ),
    "full": Settings(
        rows=(1024, 2048, 4096, 8192),
        chunk_sizes=(16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
        chunk_rows=4096,
        max_batchsize=64,
        residual_rows=1024,
        card_gib=8,
        card_rows=10_000,
        card_network="residual",
        history_rows=8192,
        history_gib=1.5,
        small_card_gib=1,
        long_rows=110_000,
        timing_rows=4096,
        timing_repeats=9,
        training_steps=20,
        equality_sizes=(1024, 256, 64, 16, 8, 7, 3),
        twin_rows=(1024, 2048, 4096),
    ),
}
ON_CUDA = {"smoke": {"small_card_gib": 1, "history_rows": 8192, "history_gib": 1.5}}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["measure", "plots"], submod_attrs={"claims": ["CLAIMS"]}
)
