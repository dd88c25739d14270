"""What a profile measures on a GPU: nothing that would be about the card's libraries."""

from dataclasses import replace

import pytest

from rlrepro.cases import large_actions, logp_old, parallel_training, slice_sampler, two_batch_sizes
from rlrepro.cases.common.profiles import settings_for
from rlrepro.cases.common.tianshou_ppo import visual_networks
from rlrepro.cases.two_batch_sizes import workloads
from rlrepro.fit import plan


@pytest.mark.parametrize("case", [two_batch_sizes, logp_old, slice_sampler, parallel_training, large_actions])
def test_a_gpu_has_settings_of_its_own(case):
    """Names that no settings have would raise; what a profile measures on a CPU is as it stands."""
    for profile, settings in case.SETTINGS.items():
        assert settings_for(case, profile, "cpu") == settings
        on_card = settings_for(case, profile, "cuda:0")
        assert on_card == replace(settings, **getattr(case, "ON_CUDA", {}).get(profile, {}))


def test_on_a_real_card_no_virtual_one_is_too_small_for_its_libraries():
    """cuBLAS keeps up to 32 MiB for each thread that uses it, and the allocator takes memory 20 MiB at a time."""
    assert settings_for(two_batch_sizes, "smoke", "cuda").gib >= 0.5
    smoke = settings_for(logp_old, "smoke", "cuda")
    assert min(smoke.card_gib, smoke.small_card_gib, smoke.history_gib) >= 0.5


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
