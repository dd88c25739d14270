"""Lab of chapter 8: `my_hasnull(buffer)`, in place of ReplayBuffer.hasnull."""

import functools
import time

import numpy as np

from rlrepro.cases.nan_scan import NEWEST
from rlrepro.cases.nan_scan.training import PARTS_OF_A_TRANSITION, make_trainer
from rlrepro.cases.nan_scan.workloads import fix
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.lab import Release

STORED, TURNS = 300_000, 5
SMALL, COLLECTS = 24, 30  # transitions in the ring whose checks are compared, with these collects
STILL = "A NaN can only be where something was written: what was already checked before?"


def trial(answer) -> Trial:
    with Release(f"tianshou=={NEWEST}", environment={"OMP_NUM_THREADS": "1"}) as newest:
        if wrong := newest.run(wrong_checks, answer):
            raise WrongResult(wrong)
        costs = newest.run(check_seconds, answer)
    return Trial(costs, "s", f"looking for NaN after a collect, {STORED:,} stored", 5)


def check_seconds(answer) -> dict[str, list[float]]:
    """Seconds that each variant takes to look for NaN after a collect of SAC, alternately on the same buffer."""
    from tianshou.data import ReplayBuffer

    costs, original = {"released": [], "yours": [], "ours": []}, ReplayBuffer.hasnull
    with fix(incremental=True):
        trainer, _ = make_trainer("SAC", STORED, collects=1)
        trainer.reset()
        collect, patched = trainer._collect_training_data, ReplayBuffer.hasnull
        checks = {"released": original, "yours": lambda self: answer(self), "ours": patched}
        for turn in range(-1, TURNS):  # the first check of a buffer reads everything
            for variant, hasnull in checks.items():
                durations = []

                def timed(self, hasnull=hasnull, durations=durations):
                    start = time.perf_counter()
                    has_nan = hasnull(self)
                    durations.append(time.perf_counter() - start)
                    return has_nan

                ReplayBuffer.hasnull = functools.wraps(patched)(timed)
                collect()
                if turn >= 0:
                    costs[variant] += durations
        ReplayBuffer.hasnull = patched
    return costs


def wrong_checks(answer) -> str | None:
    """Where the answer differs from tianshou's own check of a small ring, with a NaN in each part of a transition at
    several steps, after collects of one and of several transitions; None if nowhere."""
    for part in PARTS_OF_A_TRANSITION:
        for rows in (1, 5):
            for bad_step in (0, rows * 7 - 1, rows * 25):
                buffer = _ring()
                for collect in range(COLLECTS):
                    for step in range(collect * rows, (collect + 1) * rows):
                        buffer.add(_transition(part if step == bad_step else None))
                    expected, actual = buffer.hasnull(), answer(buffer)
                    if bool(actual) != bool(expected):
                        return (
                            f"With {rows} transitions per collect and a NaN in `{part}` at step {bad_step}, after "
                            f"collect {collect} tianshou's check returns {bool(expected)} and yours {bool(actual)}."
                        )
                    if expected:  # the release ends the run here
                        break
    return None


def _ring():
    from tianshou.data import ReplayBuffer

    return ReplayBuffer(SMALL)


def _transition(bad_field: str | None):
    from tianshou.data import Batch

    obs, nan = np.zeros(3), np.nan
    return Batch(
        obs=np.array([0, nan, 0]) if bad_field == "obs" else obs,
        act=0,
        rew=nan if bad_field == "rew" else 1.0,
        terminated=False,
        truncated=False,
        obs_next=obs,
        info={"cost": nan if bad_field == "info" else 0.0},
    )
