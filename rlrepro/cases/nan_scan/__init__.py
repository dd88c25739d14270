"""tianshou 2.x looks for NaN in the whole replay buffer after every collect.

Upstream: thu-ml/tianshou#1285 (open), which names no cause; #1262 and #1265 (closed) are the same problem in 1.2.0
before its release. `buffers` and `training` make what is measured, `workloads` runs under a release, `measure` records
the results, `claims` judges, `plots` draws.
"""

from dataclasses import dataclass, replace

import lazy_loader

CHAPTER = "08_nan_scan"
LAST_GOOD, FIRST_BAD, NEWEST = "1.2.0", "2.0.0", "2.0.1"
# examples/atari/atari_dqn.py of 2.0.0, and what #1285 saw with it
REPORTED_STORED, REPORTED_COLLECT = 100_000, 10  # transitions
REPORTED_EPOCH = 100_000  # environment steps
REPORTED_SPEED, REPORTED_EPOCH_HOURS = 2.6, 11  # environment steps per second


@dataclass(frozen=True)
class Settings:
    """How much one profile measures. Stored transitions are of two kinds: vectors of 17 numbers, and frames of which
    four are stacked on reading."""

    vectors: tuple[int, ...]  # stored when hasnull alone is timed
    frames: tuple[int, ...]
    memory_frames: tuple[int, ...]  # when the memory of a check is counted
    sac_stored: tuple[int, ...]  # when training begins
    dqn_stored: tuple[int, ...]
    collects: int  # of each training run
    repeats: int


SMOKE = Settings(
    vectors=(1_000, 10_000, 100_000, 1_000_000),
    frames=(500, 1_000, 2_000),
    memory_frames=(1_000, 4_000),
    sac_stored=(1_000, 100_000, 1_000_000),
    dqn_stored=(250, 2_000),
    collects=7,
    repeats=2,
)
SETTINGS = {
    "tiny": replace(
        SMOKE,
        vectors=(1_000, 10_000, 100_000),
        frames=(100, 200, 400),
        memory_frames=(100, 400),
        sac_stored=(1_000, 100_000),
        dqn_stored=(100, 400),
        repeats=1,
    ),
    "smoke": SMOKE,
    "full": replace(
        SMOKE,
        frames=(5_000, 10_000, 20_000, 40_000),
        memory_frames=(10_000, 40_000),
        sac_stored=(1_000, 10_000, 100_000, 1_000_000),
        dqn_stored=(1_000, 10_000, 40_000),
        repeats=3,
    ),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["measure", "plots", "workloads"],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
