"""RLlib's PPO passes the whole train batch through its value network at once, with gradients.

Upstream: ray-project/ray#52432, #52683 and #58679, open in Ray 2.60.0. `SETTINGS` says how much each profile measures,
`workloads` holds what runs in RLlib's process, `old_stack` its older API, `measure` runs them and records the results,
`claims` judges the threads, `plots` draws.
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "10_rllib_value_pass"
WAYS = ("released", "chunked")  # RLlib's learner, and ours


@dataclass(frozen=True)
class Settings:
    """How much one profile measures. `rows` are timesteps of a train batch."""

    rows: tuple[int, ...]  # for growth with the train batch
    minibatch: int  # everywhere, unless stated otherwise
    update_rows: int  # for growth with minibatch_size, of a whole update
    minibatches: tuple[int, ...]
    card_gib: float  # the virtual card of the opening scene
    card_rows: int
    modules: tuple[int, ...]  # networks trained at once, of `modules_rows` each
    modules_rows: int
    thread_rows: int  # the sizes of ray-project/ray#58679
    thread_minibatch: int
    equality_rows: int
    equality_sizes: tuple[int | None, ...]  # of chunks; None is all at once
    training_updates: int
    timing_rows: int
    timing_repeats: int


SETTINGS = {
    "tiny": Settings(
        rows=(64, 128, 256),
        minibatch=8,
        update_rows=128,
        minibatches=(8, 32),
        card_gib=0.06,
        card_rows=256,
        modules=(1, 2),
        modules_rows=64,
        thread_rows=1_200,
        thread_minibatch=120,
        equality_rows=100,
        equality_sizes=(None, 64, 7),
        training_updates=1,
        timing_rows=64,
        timing_repeats=3,
    ),
    "smoke": Settings(
        rows=(256, 512, 1024),
        minibatch=64,
        update_rows=256,
        minibatches=(16, 128),
        card_gib=0.125,
        card_rows=512,
        modules=(1, 2, 4),
        modules_rows=256,
        thread_rows=12_000,
        thread_minibatch=1_200,
        equality_rows=250,
        equality_sizes=(None, 64, 7),
        training_updates=2,
        timing_rows=512,
        timing_repeats=7,
    ),
    "full": Settings(
        rows=(1024, 2048, 4096, 8192),
        minibatch=64,
        update_rows=4096,
        minibatches=(16, 64, 256, 1024),
        card_gib=1.5,
        card_rows=8_192,
        modules=(1, 2, 4),
        modules_rows=1024,
        thread_rows=12_000,
        thread_minibatch=1_200,
        equality_rows=1000,
        equality_sizes=(None, 256, 64, 7),
        training_updates=10,
        timing_rows=4096,
        timing_repeats=9,
    ),
}
_LARGER = {  # than what CUDA's libraries allocate for themselves
    "rows": (512, 1024, 2048, 4096),
    "minibatch": 64,
    "update_rows": 2048,
    "minibatches": (16, 64, 256),
    "card_gib": 1.5,
    "card_rows": 4_096,
    "modules_rows": 512,
}
ON_CUDA = {"tiny": _LARGER, "smoke": _LARGER, "full": {"card_rows": 4_096}}  # RLlib copies a batch on its way there

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["measure", "old_stack", "plots", "workloads"],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
