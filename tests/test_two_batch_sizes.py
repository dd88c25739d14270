"""Which size governs which stage, on the real releases."""

import pytest
import torch

from rlrepro.cases.common.tianshou_ppo import ppo, visual_networks
from rlrepro.cases.common.tianshou_vectors import DiscreteActor, VectorCritic
from rlrepro.cases.two_batch_sizes import BUGGY, NEWEST, STAGES, measure
from rlrepro.fit import plan

from .conftest import open_releases

ROWS = 80  # ten from each of the environments


@pytest.fixture(scope="module")
def releases():
    with open_releases(BUGGY, NEWEST) as found:
        yield found


@pytest.fixture(scope="module")
def update(releases):
    """An update of 80 rows by the Nature network, by (version, max_batchsize, batch_size, gib)."""
    found = {}

    def run(version, max_batchsize=16, batch_size=16, gib=8):
        key = version, max_batchsize, batch_size, gib
        if key not in found:
            arguments = {"max_batchsize": max_batchsize, "batch_size": batch_size, "gib": gib, "network": "nature"}
            found[key] = releases[version].run(measure.update, rows=ROWS, **arguments)
        return found[key]

    return run


def passes(found, stage, network):
    return [rows for where, name, rows, _ in found["forwards"] if (where, name) == (stage, network)]


@pytest.mark.parametrize("version", [BUGGY, NEWEST])
def test_the_stages_are_those_of_an_update(update, version):
    found = update(version)
    assert tuple(found["stages"]) == STAGES and found["failed"] is None
    assert passes(found, "returns", "critic") == [16] * 10 and passes(found, "learn", "critic") == [16] * 5
    assert passes(found, "learn", "actor") == [16] * 5
    gradients = {(stage, on) for stage, _, _, on in found["forwards"] if stage != "collect"}
    assert gradients == {("returns", False), ("logp_old", False), ("learn", True)}


def test_logp_old_is_cut_only_where_it_is_mended(update):
    assert passes(update(BUGGY), "logp_old", "actor") == [ROWS]
    assert passes(update(NEWEST), "logp_old", "actor") == [16] * 5


@pytest.mark.parametrize("version", [BUGGY, NEWEST])
def test_each_size_governs_its_own_stages(update, version):
    before = update(version)["stages"]
    wider, longer = update(version, max_batchsize=40)["stages"], update(version, batch_size=40)["stages"]
    assert wider["returns"] > before["returns"] + 24 * 2**17 and wider["learn"] == before["learn"]
    assert longer["learn"] > before["learn"] + 24 * 2**17 and longer["returns"] == before["returns"]
    assert (wider["logp_old"] > before["logp_old"] + 24 * 2**17) == (version == NEWEST)


def test_a_card_names_the_stage_that_fails(update):
    found = update(BUGGY)["stages"]
    gib = (found["learn"] + found["logp_old"]) / 2 / 2**30
    dies = update(BUGGY, gib=gib)
    assert dies["failed"] == "logp_old" and "out of memory" in dies["error"]
    assert update(NEWEST, gib=gib)["failed"] is None
    assert update(NEWEST, gib=gib, batch_size=ROWS)["failed"] == "learn"


def test_what_runs_is_what_was_planned(update):
    networks = visual_networks("nature")
    frames, choice = measure.RandomFrames.observation_space, measure.RandomFrames.action_space
    planned = plan(*networks, frames, choice, rollout=ROWS, max_batchsize=16, batch_size=16, device="cpu").stages
    found = update(NEWEST)["stages"]
    assert planned["preprocess"] == pytest.approx(max(found["returns"], found["logp_old"]), rel=1e-3)
    assert planned["learn"] == pytest.approx(found["learn"], rel=1e-3)


def test_a_trace_rises_to_the_peaks_of_its_stages(releases):
    found = releases[NEWEST].run(measure.update, ROWS, 16, 16, 8, "nature", trace=True)
    assert [span[0] for span in found["spans"]] == list(STAGES)
    for stage, start, end in found["spans"]:
        within = max(live for seconds, live in found["trace"] if start <= seconds <= end)
        assert 0.9 * found["stages"][stage] <= within <= found["stages"][stage]


def test_collecting_keeps_gradients_from_1_2_0_on(releases):
    collected = {version: releases[version].run(measure.collecting, 16) for version in releases}
    assert not collected[BUGGY]["with_gradients"] and collected[NEWEST]["with_gradients"]
    assert collected[NEWEST]["peak_bytes"] > 1.3 * collected[BUGGY]["peak_bytes"]
    cured = releases[NEWEST].run(measure.collecting, 16, no_grad=True)
    assert cured == collected[BUGGY]


def collected_with_gradients(cured):
    """Whether the actor runs with gradients while the newest release's trainer collects."""
    import gymnasium as gym
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams

    actor, seen = DiscreteActor(4, 2), set()
    actor.register_forward_pre_hook(lambda _, args: seen.add((len(args[0]), torch.is_grad_enabled())))
    algorithm = ppo(actor, VectorCritic(4), action_space=gym.make("CartPole-v1").action_space)
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    collector = Collector(algorithm, envs, VectorReplayBuffer(64, 2))
    if cured:
        collector.collect = torch.no_grad()(collector.collect)
    run = {"max_epochs": 1, "epoch_num_steps": 64, "collection_step_num_env_steps": 64, "batch_size": 32}
    params = OnPolicyTrainerParams(training_collector=collector, test_collector=None, test_in_training=False, **run)
    algorithm.run_training(params)
    assert (32, True) in seen  # the gradient steps
    return (2, True) in seen


def test_under_the_trainer_too(capfd):
    assert collected_with_gradients(cured=False)
    assert not collected_with_gradients(cured=True)


@pytest.mark.parametrize("version", [BUGGY, NEWEST])
@pytest.mark.parametrize(
    "case, expected",
    [
        ({"rows": 96}, ([32, 32, 32], [32, 32, 32], None)),
        ({}, ([32, 32, 36], [32, 32, 36], None)),
        ({"rows": 63}, ([63], [63], None)),
        ({"max_batchsize": None}, ([], [], "TypeError")),
        ({"max_batchsize": 0}, ([], [], "AssertionError")),
        ({"batch_size": None}, ([32, 32, 36], [100], None)),
        ({"batch_size": 0}, ([32, 32, 36], [100], None)),
        ({"rows": 0}, ([], [], "ValueError: torch.cat()")),
    ],
)
def test_the_edges(releases, version, case, expected):
    found = releases[version].run(measure.edge_case, **case)
    before, within, error = expected
    assert (found["before"], found["in"]) == (before, within)
    assert found["error"].startswith(error) if error else found["error"] is None


def test_a_plan_is_what_a_run_takes(update):
    """To the byte, since both count tensors; and no longer so with another batch size."""
    space = measure.RandomFrames.observation_space, measure.RandomFrames.action_space
    sizes = {"max_batchsize": 16, "batch_size": 32, "envs": measure.ENVS, "device": "cpu"}
    planned, found = plan(*visual_networks("nature"), *space, rollout=ROWS, **sizes), update(NEWEST, 16, 32, None)
    assert measure.plan_over_run(planned, found["stages"], "cpu") == {"collect": 1, "preprocess": 1, "learn": 1}
    assert measure.plan_over_run(planned.at(batch_size=16), found["stages"], "cpu")["learn"] < 1
    assert measure.plan_over_run(planned, found["stages"], "cuda")["learn"] > 1.02  # a margin comes on top
