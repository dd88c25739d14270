"""The size that governs each stage, on the real releases."""

import pytest
import torch

from rlrepro.cases import two_batch_sizes
from rlrepro.cases.common.bench import Bench
from rlrepro.cases.common.tianshou_ppo import ppo, visual_networks
from rlrepro.cases.common.tianshou_vectors import DiscreteActor, VectorCritic
from rlrepro.cases.two_batch_sizes import BUGGY, NEWEST, STAGES, measure, workloads
from rlrepro.cases.two_batch_sizes.claims import governing_sizes
from rlrepro.cases.two_batch_sizes.stages import plan_over_run
from rlrepro.fit import plan

from .conftest import open_releases

ROLLOUT = 80  # ten from each of the environments
FLOOR = 2**17  # bytes of activations per transition, at least


@pytest.fixture(scope="module")
def releases():
    with open_releases(BUGGY, NEWEST) as releases:
        yield releases


@pytest.fixture(scope="module")
def update(releases):
    """An update on 80 transitions with the Nature network, by (version, max_batchsize, batch_size, gib)."""
    cached = {}

    def run(version, max_batchsize=16, batch_size=16, gib=8):
        key = version, max_batchsize, batch_size, gib
        if key not in cached:
            arguments = {"max_batchsize": max_batchsize, "batch_size": batch_size, "gib": gib, "network": "nature"}
            cached[key] = releases[version].run(workloads.update, rollout=ROLLOUT, **arguments)
        return cached[key]

    return run


def passes(result, stage, network):
    return [rows for pass_stage, name, rows, _ in result["forwards"] if (pass_stage, name) == (stage, network)]


@pytest.mark.parametrize("version", [BUGGY, NEWEST])
def test_the_stages_are_those_of_an_update(update, version):
    result = update(version)
    assert tuple(result["stages"]) == STAGES and result["failed"] is None
    assert passes(result, "returns", "critic") == [16] * 10 and passes(result, "learn", "critic") == [16] * 5
    assert passes(result, "learn", "actor") == [16] * 5
    gradients = {(stage, with_gradients) for stage, _, _, with_gradients in result["forwards"] if stage != "collect"}
    assert gradients == {("returns", False), ("logp_old", False), ("learn", True)}


def test_logp_old_is_split_only_in_the_fixed_release(update):
    assert passes(update(BUGGY), "logp_old", "actor") == [ROLLOUT]
    assert passes(update(NEWEST), "logp_old", "actor") == [16] * 5


@pytest.mark.parametrize("version", [BUGGY, NEWEST])
def test_each_size_governs_its_own_stages(update, version):
    before = update(version)["stages"]
    larger_chunk, larger_batch = (update(version, **{name: 40})["stages"] for name in ("max_batchsize", "batch_size"))
    assert larger_chunk["returns"] > before["returns"] + 24 * FLOOR and larger_chunk["learn"] == before["learn"]
    assert larger_batch["learn"] > before["learn"] + 24 * FLOOR and larger_batch["returns"] == before["returns"]
    assert (larger_chunk["logp_old"] > before["logp_old"] + 24 * FLOOR) == (version == NEWEST)


def test_a_card_names_the_stage_that_fails(update):
    stages = update(BUGGY)["stages"]
    gib = (stages["learn"] + stages["logp_old"]) / 2 / 2**30
    failed = update(BUGGY, gib=gib)
    assert failed["failed"] == "logp_old" and "out of memory" in failed["error"]
    assert update(NEWEST, gib=gib)["failed"] is None
    assert update(NEWEST, gib=gib, batch_size=ROLLOUT)["failed"] == "learn"


def test_a_trace_rises_to_the_peaks_of_its_stages(releases):
    result = releases[NEWEST].run(workloads.update, ROLLOUT, 16, 16, 8, "nature", trace=True)
    assert [span[0] for span in result["spans"]] == list(STAGES)
    for stage, start, end in result["spans"]:
        peak = max(live for seconds, live in result["trace"] if start <= seconds <= end)
        assert 0.9 * result["stages"][stage] <= peak <= result["stages"][stage]


def test_collecting_keeps_gradients_from_1_2_0_on(releases):
    steps = {version: releases[version].run(workloads.collecting, 16) for version in releases}
    assert not steps[BUGGY]["with_gradients"] and steps[NEWEST]["with_gradients"]
    assert steps[NEWEST]["peak_bytes"] > 1.3 * steps[BUGGY]["peak_bytes"]
    assert releases[NEWEST].run(workloads.collecting, 16, no_grad=True) == steps[BUGGY]


def collects_with_gradients(fixed):
    """Whether the actor runs with gradients while the newest release's trainer collects."""
    import gymnasium as gym
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams

    actor, passes = DiscreteActor(4, 2), set()
    actor.register_forward_pre_hook(lambda _, args: passes.add((len(args[0]), torch.is_grad_enabled())))
    algorithm = ppo(actor, VectorCritic(4), action_space=gym.make("CartPole-v1").action_space)
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    collector = Collector(algorithm, envs, VectorReplayBuffer(64, 2))
    if fixed:
        collector.collect = torch.no_grad()(collector.collect)
    run = {"max_epochs": 1, "epoch_num_steps": 64, "collection_step_num_env_steps": 64, "batch_size": 32}
    params = OnPolicyTrainerParams(training_collector=collector, test_collector=None, test_in_training=False, **run)
    algorithm.run_training(params)
    assert (32, True) in passes  # the gradient steps
    return (2, True) in passes


def test_the_fix_works_with_the_trainer_too(capfd):
    assert collects_with_gradients(fixed=False)
    assert not collects_with_gradients(fixed=True)


@pytest.mark.parametrize("version", [BUGGY, NEWEST])
@pytest.mark.parametrize(
    "case, expected",
    [
        ("both divide the rollout", ([32, 32, 32], [32, 32, 32], None)),
        ("a remainder", ([32, 32, 36], [32, 32, 36], None)),
        ("almost twice the size", ([63], [63], None)),
        ("max_batchsize=None", ([], [], "TypeError")),
        ("max_batchsize=0", ([], [], "AssertionError")),
        ("batch_size=None", ([32, 32, 36], [100], None)),
        ("batch_size=0", ([32, 32, 36], [100], None)),
        ("an empty rollout", ([], [], "ValueError: torch.cat()")),
    ],
)
def test_edge_cases(releases, version, case, expected):
    result = releases[version].run(workloads.edge_case, **measure.EDGE_CASES[case])
    before, within, error = expected
    assert (result["before"], result["in"]) == (before, within)
    assert result["error"].startswith(error) if error else result["error"] is None


def test_a_plan_equals_the_memory_of_a_run(update):
    """To the byte, since both count tensors; with another batch size, they differ."""
    sizes = {"max_batchsize": 16, "batch_size": 32, "envs": workloads.ENVS, "device": "cpu"}
    planned = plan(*visual_networks("nature"), measure.FRAMES, measure.CHOICE, rollout=ROLLOUT, **sizes)
    stages = update(NEWEST, 16, 32, None)["stages"]
    assert plan_over_run(planned, stages, "cpu") == {"collect": 1, "preprocess": 1, "learn": 1}
    assert plan_over_run(planned.at(batch_size=16), stages, "cpu")["learn"] < 1
    assert plan_over_run(planned, stages, "cuda")["learn"] > 1.02  # a margin comes on top


@pytest.fixture
def bench(tmp_path, monkeypatch, releases):
    bench = Bench(two_batch_sizes, profile="tiny", device="cpu", seed=0, out=tmp_path)
    monkeypatch.setattr(bench, "release", lambda requirement, **_: releases[requirement.partition("==")[2]])
    return bench


def test_counted_forward_passes_show_which_size_governs_a_stage(bench):
    rows = measure.count_forwards(bench)
    assert rows[BUGGY, 16, 8]["actor", False] == [40] and rows[NEWEST, 16, 8]["actor", False] == [16, 24]
    assert governing_sizes(bench.records) == {"returns": "max_batchsize", "logp_old": "neither", "learn": "batch_size"}
    assert governing_sizes(bench.records, NEWEST)["logp_old"] == "max_batchsize"


def test_in_the_smallest_grid_sizes_matter_only_in_the_fixed_release(bench):
    measure.which_sizes_fit(bench)
    failed = {version: {} for version in (BUGGY, NEWEST)}
    for record in bench.records:
        pair = record.setting["max_batchsize"], record.setting["batch_size"]
        failed[record.setting["release"]][pair] = record.setting["failed"]
        assert record.value == (record.setting["failed"] is None)
    assert set(failed[BUGGY].values()) <= {"logp_old", "returns"}
    assert failed[NEWEST][4, 4] is None and failed[NEWEST][4, 16] == "learn" and failed[NEWEST][32, 4] == "returns"
