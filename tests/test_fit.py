"""Plans against the real thing: VirtualCard's count of the same update by the installed tianshou."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rlrepro.cases.tianshou_ppo import ACTIONS, ppo, preprocess, visual_networks, visual_rollout
from rlrepro.cases.tianshou_vectors import FEATURES, DiscreteActor, VectorCritic, vector_rollout
from rlrepro.fit.planner import CannotPlan, plan
from rlrepro.lab import VirtualCard

MIB = 2**20
FRAMES, VECTORS = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Box(-1, 1, (FEATURES,), np.float32)
CHOICE = spaces.Discrete(ACTIONS)


class Recurrent(nn.Module):
    """An LSTM over 8 steps of 8 features, from a row of 64."""

    def __init__(self, outputs):
        super().__init__()
        self.steps, self.head = nn.LSTM(8, 32, batch_first=True), nn.Linear(32, outputs)

    def forward(self, obs, state=None, info=None, **_):
        out = self.head(self.steps(torch.as_tensor(obs).view(-1, 8, 8))[0][:, -1])
        return (out, state) if self.head.out_features > 1 else out


NETWORKS = {
    "mlp": lambda: (DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES)),
    "nature": lambda: visual_networks("nature"),
    "residual": lambda: visual_networks("residual"),
    "recurrent": lambda: (Recurrent(ACTIONS), Recurrent(1)),
}


def is_visual(name):
    return name in ("nature", "residual")


def make_plan(name, **sizes):
    return plan(*NETWORKS[name](), FRAMES if is_visual(name) else VECTORS, CHOICE, **sizes)


def measured(name, rollout, max_batchsize, batch_size, cls=None):
    """The most live bytes in each stage of the second update, when gradients and the optimizer's state are there."""
    rows = visual_rollout(rollout) if is_visual(name) else vector_rollout(rollout)
    found = {}
    with VirtualCard(64, device="cpu") as card:
        algorithm = ppo(*NETWORKS[name](), max_batchsize=max_batchsize, cls=cls)
        for _ in range(2):
            for stage, step in {
                "preprocess": lambda: preprocess(algorithm, *rows),
                "learn": lambda: algorithm._update_with_batch(batch, batch_size, 1),
            }.items():
                card.restart_peak()
                result = step()
                found[stage] = card.peak_bytes
                if stage == "preprocess":
                    batch = result
            del batch, result
    return found


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("sizes", [(256, 64, 64), (250, 32, 48), (127, 64, 100), (40, 256, 64)])
def test_a_plan_is_what_the_card_counts_to_the_byte(name, sizes):
    rollout, max_batchsize, batch_size = sizes
    planned = make_plan(name, rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size).stages
    for stage, peak in measured(name, *sizes).items():
        assert planned[stage] == peak, stage


def test_many_chunks_are_extrapolated_to_the_byte():
    planned = make_plan("mlp", rollout=4001, max_batchsize=16, batch_size=100).stages
    assert {stage: planned[stage] for stage in ("preprocess", "learn")} == measured("mlp", 4001, 16, 100)


def test_a2c_is_planned_by_its_own_code():
    from tianshou.algorithm import A2C

    planned = make_plan("mlp", rollout=300, max_batchsize=64, batch_size=64, library="tianshou-a2c").stages
    found = measured("mlp", 300, 64, 64, cls=A2C)
    assert {stage: planned[stage] for stage in found} == found


@settings(max_examples=12, deadline=None)
@given(rollout=st.integers(20, 600), max_batchsize=st.integers(1, 600), batch_size=st.integers(2, 600))
def test_what_is_said_to_fit_fits(rollout, max_batchsize, batch_size):
    planned = make_plan("mlp", rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size)
    found = max(measured("mlp", rollout, max_batchsize, batch_size).values())
    assert planned.fits(gib=found / 2**30) and not planned.fits(gib=(found - 1) / 2**30)


@pytest.mark.parametrize("rollout", [512, 509])
def test_the_largest_sizes_fit_and_the_next_do_not(rollout):
    planned = make_plan("nature", rollout=rollout, max_batchsize=64, batch_size=64)
    gib = 110 * MIB / 2**30
    batch_size, max_batchsize = planned.largest_batch_size(gib), planned.largest_max_batchsize(gib)
    fits = {"batch_size": batch_size, "max_batchsize": max_batchsize}
    best = make_plan("nature", rollout=rollout, **fits)
    assert best.fits(gib)
    for name in fits:
        beyond = [make_plan("nature", rollout=rollout, **{**fits, name: fits[name] + more}) for more in (1, 2, 5, 30)]
        assert not any(each.fits(gib) for each in beyond), name
    assert planned.largest_batch_size(8) == rollout and planned.largest_batch_size(0.001) == 0


def test_the_largest_rollout_fits_and_one_more_chunk_does_not():
    planned = make_plan("mlp", rollout=256, max_batchsize=64, batch_size=64)
    gib = 3 * MIB / 2**30
    rows = planned.largest_rollout(gib)
    assert rows > 10_000
    assert make_plan("mlp", rollout=rows, max_batchsize=64).fits(gib)
    assert not make_plan("mlp", rollout=rows + 64, max_batchsize=64).fits(gib)


def test_a_laptop_plans_for_a_large_card():
    script = """
import numpy as np, resource, torch
from gymnasium import spaces
from rlrepro.cases.tianshou_ppo import visual_networks
from rlrepro.fit import plan
planned = plan(*visual_networks("nature"), spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6),
               rollout=1_000_000, batch_size=250_000, device_memory_gib=141)
print(planned.peak_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    peak, resident = map(int, done.stdout.split()[-2:])
    assert peak > 100e9 and resident < 1e9


def test_planning_leaves_networks_and_random_numbers_alone():
    actor, critic = NETWORKS["mlp"]()
    before = [each.clone() for each in actor.parameters()]
    numbers = []
    for planning in (False, True):
        torch.manual_seed(0)
        np.random.seed(0)
        if planning:
            plan(actor, critic, VECTORS, CHOICE, rollout=100)
        numbers.append((torch.rand(1).item(), np.random.random()))
    assert numbers[0] == numbers[1]
    assert all(torch.equal(a, b) for a, b in zip(before, actor.parameters(), strict=True))
    assert all(each.grad is None for each in actor.parameters())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rollout": 0}, "rollout must be a whole number of rows, at least 1; found 0"),
        ({"batch_size": 2.5}, "batch_size must be"),
        ({"library": "sb3"}, "tianshou-ppo, tianshou-a2c"),
        ({"obs_space": CHOICE}, "obs_space must be a gymnasium Box"),
        ({"act_space": spaces.MultiBinary(3)}, "act_space must be a gymnasium Box or Discrete"),
        ({"actor": len}, "actor must be a torch.nn.Module"),
        ({"obs_space": FRAMES}, r"observations of shape \(4, 84, 84\)"),
    ],
)
def test_bad_arguments_are_named(change, message):
    actor, critic = NETWORKS["mlp"]()
    given = {"actor": actor, "critic": critic, "obs_space": VECTORS, "act_space": CHOICE, "rollout": 64, **change}
    with pytest.raises(CannotPlan, match=message):
        plan(**given)


def test_a_network_that_looks_at_its_numbers_is_refused():
    class Looks(DiscreteActor):
        def forward(self, obs, state=None, info=None, **_):
            rows = torch.as_tensor(obs)
            return self.body(rows[rows.sum(1) > 0]), state

    with pytest.raises(CannotPlan, match="could not be run"):
        plan(Looks(FEATURES, ACTIONS), NETWORKS["mlp"]()[1], VECTORS, CHOICE, rollout=64)


BUILDER = """
from rlrepro.cases.tianshou_vectors import DiscreteActor, VectorCritic
from gymnasium import spaces
def build():
    return DiscreteActor(64, 6), VectorCritic(64), spaces.Box(-1, 1, (64,)), spaces.Discrete(6)
def wrong():
    return 3
"""


def test_the_command_line_answers_people_and_programs(run_cli, tmp_path):
    (tmp_path / "mine.py").write_text(BUILDER)
    table = run_cli("fit", "mine:build", "--gib", 0.002, "--rollout", 2048)
    assert table.returncode == 0 and "does not fit" in table.stdout and "largest batch_size" in table.stdout
    answer = json.loads(run_cli("fit", "mine:build", "--gib", 8, "--rollout", 2048, "--json").stdout)
    assert answer["fits"] and answer["failing_stage"] is None and set(answer["stages_bytes"]) >= {"learn"}


@pytest.mark.parametrize(
    "builder, message", [("mine", "MODULE:FUNCTION"), ("nowhere:build", "No module"), ("mine:wrong", "must return")]
)
def test_a_builder_that_is_none_is_explained(run_cli, tmp_path, builder, message):
    (tmp_path / "mine.py").write_text(BUILDER)
    done = run_cli("fit", builder, "--gib", 8, "--rollout", 64)
    assert done.returncode == 2 and message in done.stderr
