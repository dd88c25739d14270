"""Updates of tianshou's algorithms, planned, and run with a full buffer."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

pytest.importorskip("tianshou.algorithm")
from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from rlrepro.fit import CannotPlan, plan_tianshou
from rlrepro.lab import VirtualCard

from .fit_tianshou import ALGORITHMS, CHOICE, OBS, dqn

ROWS = 128


def filled(size: int, act_space, buffer=None) -> ReplayBuffer:
    """A buffer of random transitions."""
    buffer = ReplayBuffer(size) if buffer is None else buffer
    flags = {"terminated": False, "truncated": False}
    for index in range(size):
        step = Batch(obs=OBS.sample(), obs_next=OBS.sample(), act=act_space.sample(), rew=1.0, info={}, **flags)
        if isinstance(buffer, VectorReplayBuffer):
            buffer.add(Batch.stack([step]), buffer_ids=np.array([index % buffer.buffer_num]))
        else:
            buffer.add(step)
    return buffer


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_update_is_planned_as_tianshou_runs_it(name):
    make, act_space, size = ALGORITHMS[name]
    with VirtualCard(64, device="cpu") as card:
        algorithm, buffer = make(), filled(min(size, 1000), act_space)
        arguments = (buffer, ROWS, 1) if name in ("A2C", "PPO") else (buffer, ROWS)
        with policy_within_training_step(algorithm.policy):
            for _ in range(4):  # TD3's actor learns in every second one
                algorithm.update(*arguments)
            card.restart_peak()
            for _ in range(2):
                algorithm.update(*arguments)
    planned = plan_tianshou(make, OBS, act_space, buffer_size=len(buffer), batch_size=ROWS, device="cpu")
    peak = max(planned.stages["preprocess"], planned.stages["learn"])
    assert peak == pytest.approx(card.peak_bytes, abs=ROWS * 6 * 4)  # one array of actions


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_on_a_card_weights_and_batches_are_on_it_and_the_buffer_is_not(name):
    make, act_space, size = ALGORITHMS[name]
    host = plan_tianshou(make, OBS, act_space, buffer_size=size, batch_size=ROWS, device="cpu")
    card = plan_tianshou(partial(make, device="cuda"), OBS, act_space, buffer_size=size, batch_size=ROWS)
    assert card.stages["learn"] == pytest.approx(host.stages["learn"], rel=0.2)
    assert card.host_bytes > size * 17 * 4


@pytest.mark.slow
@pytest.mark.parametrize("buffer", [ReplayBuffer, partial(VectorReplayBuffer, buffer_num=4)])
def test_the_search_for_nan_is_a_stage_of_host_memory(buffer):
    planned = plan_tianshou(dqn, OBS, CHOICE, buffer=buffer, buffer_size=4000, device="cpu")
    stored = filled(4000, CHOICE, buffer(4000))
    stored.hasnull()
    tracemalloc.start()
    stored.hasnull()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert planned.host_stages["nan scan"] - planned.host_stages["collect"] == pytest.approx(peak, rel=0.01)
    assert "in nan scan" in str(planned)


def test_anything_but_an_algorithm_is_named():
    with pytest.raises(CannotPlan, match=r"an Algorithm of tianshou 2.x; found int"):
        plan_tianshou(lambda: 3, OBS, CHOICE, device="cpu")
    with pytest.raises(CannotPlan, match="make has no size layers"):
        plan_tianshou(dqn, OBS, CHOICE, layers=3)
