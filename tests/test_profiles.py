"""Sizes of the profiles on a GPU: large enough that the card's libraries don't decide the result."""

import pytest

from rlrepro.cases import logp_old, two_batch_sizes
from rlrepro.cases.common.bench import settings_for
from rlrepro.cases.common.tianshou_ppo import visual_networks
from rlrepro.cases.two_batch_sizes import workloads
from rlrepro.fit import plan


def test_on_a_real_card_no_virtual_one_is_too_small_for_its_libraries():
    """cuBLAS keeps up to 32 MiB for each thread that uses it, and the allocator takes memory 20 MiB at a time."""
    assert settings_for(two_batch_sizes, "smoke", "cuda").gib >= 0.5
    smoke = settings_for(logp_old, "smoke", "cuda")
    assert min(smoke.card_gib, smoke.small_card_gib, smoke.history_gib) >= 0.5


@pytest.mark.slow
def test_on_a_real_card_the_sizes_still_decide_what_fits():
    settings = settings_for(two_batch_sizes, "smoke", "cuda")
    space = workloads.RandomFrames.observation_space, workloads.RandomFrames.action_space
    planned = plan(*visual_networks(settings.network), *space, rollout=settings.rollout, envs=workloads.ENVS)
    failing = {
        (chunk, batch): planned.at(max_batchsize=chunk, batch_size=batch).failing_stage(settings.gib)
        for chunk in settings.max_batchsizes
        for batch in settings.batch_sizes
    }
    assert set(failing.values()) == {None, "preprocess", "learn"}
