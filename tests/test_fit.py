"""Plans against the real thing: the same update, by the installed library, counted and measured."""

import json
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlrepro.cases.common.networks import NatureCNN, ResidualCNN
from rlrepro.cases.common.tianshou_ppo import ACTIONS, ppo, preprocess, visual_networks, visual_rollout
from rlrepro.cases.common.tianshou_vectors import (
    DISTRIBUTIONS,
    FEATURES,
    DiscreteActor,
    GaussianActor,
    VectorCritic,
    mlp,
    vector_rollout,
)
from rlrepro.cases.two_batch_sizes.error_study.library_runs import measured
from rlrepro.fit import CannotPlan, Plan, operators, plan, planner
from rlrepro.fit.command import describe_plan
from rlrepro.fit.update_planner import RESERVE
from rlrepro.lab import VirtualCard

MIB = 2**20
FRAMES, VECTORS = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Box(-1, 1, (FEATURES,), np.float32)
CHOICE = spaces.Discrete(ACTIONS)
EXACT = 0.01  # of tensors, and for an LSTM's workspace, whose size only the operator knows
MARGIN = 0.15


class LSTM(nn.Module):
    """A row of 64 as 16 steps of 4 features: (..., 64) to (..., outputs)."""

    def __init__(self, outputs):
        super().__init__()
        self.steps, self.head = nn.LSTM(4, 64, batch_first=True), nn.Linear(64, outputs)

    def forward(self, rows):
        hidden = self.steps(rows.reshape(-1, 16, 4))[0][:, -1]
        return self.head(hidden).unflatten(0, rows.shape[:-1])


class Frames(nn.Module):
    """A network of frames, for a TensorDict's extra dimensions: (..., 4, 84, 84) uint8 to (..., outputs)."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, frames):
        return self.body(frames.flatten(0, -4).float() / 255).unflatten(0, frames.shape[:-3])


class RecurrentActor(DiscreteActor):
    def __init__(self):
        super().__init__(FEATURES, ACTIONS)
        self.body = LSTM(ACTIONS)


class RecurrentCritic(VectorCritic):
    def __init__(self):
        super().__init__(FEATURES)
        self.body = LSTM(1)


BODIES = {
    "mlp": partial(mlp, FEATURES),
    "nature": lambda outputs: Frames(NatureCNN(outputs)),
    "residual": lambda outputs: Frames(ResidualCNN(outputs)),
    "recurrent": LSTM,
}
SLOW_RESIDUAL = pytest.param("residual", marks=pytest.mark.slow)
FASTEST_FIRST = ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("nature", "residual", "recurrent"))]
TIANSHOU = {
    "mlp": lambda: (DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES)),
    "nature": lambda: visual_networks("nature"),
    "residual": lambda: visual_networks("residual"),
    "recurrent": lambda: (RecurrentActor(), RecurrentCritic()),
}


def space_of(name):
    return FRAMES if name in ("nature", "residual") else VECTORS


def make_plan(name, *, device="cpu", **arguments):
    return plan(*TIANSHOU[name](), space_of(name), CHOICE, device=device, **arguments)


def measured_tianshou(name, rollout, max_batchsize, batch_size, cls=None) -> dict:
    """The second update, when gradients and the optimizer's state are there."""
    rows = visual_rollout(rollout) if space_of(name) is FRAMES else vector_rollout(rollout)
    results = []
    with VirtualCard(64, device="cpu") as card:
        algorithm = ppo(*TIANSHOU[name](), max_batchsize=max_batchsize, cls=cls)
        stages = {
            "preprocess": lambda: results.append(preprocess(algorithm, *rows)),
            "learn": lambda: algorithm._update_with_batch(results.pop(), batch_size, 1),
        }
        measured(stages, card)
        return measured(stages, card)


def assert_close(planned, found):
    for stage, (tensors, allocated) in found.items():
        assert planned.stages[stage] == pytest.approx(tensors, rel=EXACT), stage
        assert allocated <= planned.needed[stage] <= (1 + MARGIN) * allocated, stage


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "nature", SLOW_RESIDUAL])
@pytest.mark.parametrize("sizes", [(256, 64, 64), (127, 64, 100), (40, 256, 64)])
def test_tensors_are_planned_to_the_byte(name, sizes):
    rollout, max_batchsize, batch_size = sizes
    planned = make_plan(name, rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size)
    assert planned.stages.items() >= {stage: each[0] for stage, each in measured_tianshou(name, *sizes).items()}.items()


class Observed(nn.Module):
    """A network with a normaliser before it, whose buffers are no weights."""

    def __init__(self, outputs):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 128), nn.Tanh(), nn.Linear(128, outputs))
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.register_buffer("std", torch.ones(FEATURES))
        self.unused, self.last = nn.Linear(500, 500), None

    def forward(self, rows):
        self.last = self.body((rows - self.mean) / self.std)
        return self.last


def with_bodies(actor_body, critic_body):
    actor, critic = DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES)
    actor.body, critic.body = actor_body, critic_body
    return actor, critic


def shared_trunk():
    trunk = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU())
    return with_bodies(nn.Sequential(trunk, nn.Linear(512, ACTIONS)), nn.Sequential(trunk, nn.Linear(512, 1)))


def used():
    actor, critic = with_bodies(Observed(ACTIONS), Observed(1))
    actor(np.zeros((2, FEATURES), np.float32))
    return actor, critic


def batch_norms():
    return with_bodies(*(nn.Sequential(nn.BatchNorm1d(FEATURES), mlp(FEATURES, size)) for size in (ACTIONS, 1)))


@pytest.mark.parametrize(
    "networks, continuous",
    [
        (shared_trunk, False),
        (used, False),
        (batch_norms, False),
        (lambda: (DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES).double().float()), False),
        (lambda: (GaussianActor(FEATURES, 50), VectorCritic(FEATURES)), True),
    ],
    ids=["shared trunk", "normaliser, used before", "BatchNorm", "plain", "Gaussian"],
)
def test_other_networks_are_planned_as_exactly(networks, continuous):
    space = spaces.Box(-1, 1, (50,)) if continuous else CHOICE
    rows = vector_rollout(130, 50 if continuous else None)
    results = []
    with VirtualCard(64, device="cpu") as card:
        actor, critic = networks()
        dist_fn = DISTRIBUTIONS["independent" if continuous else "categorical"]
        algorithm = ppo(actor, critic, max_batchsize=32, dist_fn=dist_fn, action_space=space)
        for weight in (*algorithm.parameters(), *algorithm.buffers()):
            weight.data.view(-1)  # an operator, so that the card counts what nothing reads
        stages = {
            "preprocess": lambda: results.append(preprocess(algorithm, *rows)),
            "learn": lambda: algorithm._update_with_batch(results.pop(), 32, 1),
        }
        measured(stages, card)
        found = measured(stages, card)
    planned = plan(*networks(), VECTORS, space, rollout=130, max_batchsize=32, batch_size=32, device="cpu")
    for stage, (tensors, _) in found.items():
        assert planned.stages[stage] == pytest.approx(tensors, rel=1e-3), stage


def test_networks_keep_their_precision_unless_told():
    class Double(DiscreteActor):
        def forward(self, obs, state=None, info=None, **_):
            return self.body(torch.as_tensor(obs).double()), state

    class DoubleCritic(VectorCritic):
        def forward(self, obs, **_):
            return self.body(torch.as_tensor(obs).double())

    double = Double(FEATURES, ACTIONS).double(), DoubleCritic(FEATURES).double()
    in_double = plan(*double, VECTORS, CHOICE, rollout=64)
    single = make_plan("mlp", rollout=64, device="cuda")
    assert in_double.stages["learn"] > 1.7 * single.stages["learn"]


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode, lambda: VirtualCard(0.0001, device="cpu")])
def test_what_is_around_a_plan_changes_nothing(around):
    networks, expected = TIANSHOU["mlp"](), make_plan("mlp", rollout=64, batch_size=16)
    with around():
        planned = plan(*networks, VECTORS, CHOICE, rollout=64, batch_size=16, device="cpu")
        assert planned.at(envs=128).stages["learn"] == planned.stages["learn"]
    assert planned.stages == expected.stages


def test_plans_can_be_made_in_several_threads():
    expected = make_plan("mlp", rollout=128).stages
    with ThreadPoolExecutor(3) as pool:
        plans = [pool.submit(lambda: make_plan("mlp", rollout=64).at(rollout=128)) for _ in range(4)]
    assert all(each.result().stages == expected for each in plans)


@pytest.mark.slow
def test_many_chunks_are_extrapolated_to_the_byte():
    planned = make_plan("mlp", rollout=1001, max_batchsize=16, batch_size=100).stages
    assert (
        planned.items() >= {stage: each[0] for stage, each in measured_tianshou("mlp", 1001, 16, 100).items()}.items()
    )


def random_sizes(name, seed):
    numbers = random.Random(f"{name} {seed}")
    most = {"nature": 160, "residual": 50}.get(name, 800)
    return numbers.randint(16, most), numbers.randint(4, most), numbers.randint(2, most)


@pytest.mark.slow
@pytest.mark.parametrize("name", FASTEST_FIRST)
def test_what_is_said_to_fit_fits(name):
    for seed in range(13):  # of each of the four networks
        rollout, max_batchsize, batch_size = sizes = random_sizes(name, seed)
        planned = make_plan(name, rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size)
        assert_close(planned, measured_tianshou(name, *sizes))


def test_a2c_is_planned_by_its_own_code():
    from tianshou.algorithm import A2C

    planned = make_plan("mlp", rollout=300, max_batchsize=64, batch_size=64, library="tianshou-a2c")
    assert_close(planned, measured_tianshou("mlp", 300, 64, 64, cls=A2C))


def sb3_model(name, rollout, batch_size):
    """Stable-Baselines3's PPO on the named network, with a full rollout buffer."""
    import gymnasium as gym
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import configure
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Extractor(BaseFeaturesExtractor):
        def __init__(self, space):
            super().__init__(space, 64)
            self.body = BODIES[name](64)

        def forward(self, rows):
            return self.body(rows)

    class Env(gym.Env):
        observation_space, action_space = space_of(name), CHOICE

    network = {"features_extractor_class": Extractor, "normalize_images": False}
    sizes = {"n_steps": rollout, "batch_size": batch_size, "n_epochs": 1}
    model = PPO("MlpPolicy", Env(), **sizes, policy_kwargs=network, device="cpu")
    model.set_logger(configure(None, []))
    model.rollout_buffer.full = True
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")  # codespell:ignore
@pytest.mark.parametrize("sizes", [(64, 32), (100, 30)])
def test_sb3_is_planned_by_its_own_code(name, sizes):
    with VirtualCard(64, device="cpu") as card:
        model = sb3_model(name, *sizes)
        measured({"learn": model.train}, card)
        found = measured({"learn": model.train}, card)
    planned = plan(model.policy, rollout=sizes[0], batch_size=sizes[1], library="sb3-ppo", device="cpu")
    assert_close(planned, found)
    if name != "recurrent":
        assert planned.stages["learn"] == pytest.approx(found["learn"][0], abs=256)  # a vector of a minibatch


def test_an_sb3_policy_brings_its_own_optimizer_and_may_explore_by_state():
    from stable_baselines3 import PPO

    def learn(**arguments):
        model = PPO("MlpPolicy", "Pendulum-v1", n_steps=64, device="cpu", **arguments)
        return plan(model.policy, rollout=64, library="sb3-ppo").stages["learn"]

    assert learn(policy_kwargs={"optimizer_class": torch.optim.SGD}) < 0.9 * learn()
    assert learn(use_sde=True) > 0


def torchrl_networks(name):
    from tensordict.nn import TensorDictModule
    from torch.distributions import Categorical
    from torchrl.modules import ProbabilisticActor, ValueOperator

    logits = TensorDictModule(BODIES[name](ACTIONS), ["observation"], ["logits"])
    actor = ProbabilisticActor(logits, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True)
    return actor, ValueOperator(BODIES[name](1), in_keys=["observation"])


def measured_torchrl(name, rollout, batch_size):
    """An update as TorchRL's tutorial has it, with the rollout in memory."""
    from tensordict import TensorDict
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    with VirtualCard(64, device="cpu") as card:
        actor, critic = torchrl_networks(name)
        loss = ClipPPOLoss(actor, critic)
        advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, deactivate_vmap=name == "recurrent")
        optimizer = torch.optim.Adam(loss.parameters())
        dtype = torch.uint8 if space_of(name) is FRAMES else torch.float32
        rows = {}

        def collect():
            observed = torch.zeros((rollout, *space_of(name).shape), dtype=dtype)
            data = TensorDict({"observation": observed}, [rollout])
            data.update({"logits": torch.zeros(rollout, ACTIONS), "action": torch.zeros(rollout, dtype=torch.int64)})
            data["action_log_prob"] = torch.zeros(rollout)
            ends = {key: torch.zeros(rollout, 1, dtype=torch.bool) for key in ("done", "terminated", "truncated")}
            following = {"observation": torch.zeros_like(observed), "reward": torch.zeros(rollout, 1), **ends}
            rows["data"] = data.set("next", TensorDict(following, [rollout]))

        def advantages():
            with torch.no_grad():
                advantage(rows["data"])

        def learn():
            for chosen in torch.randperm(rollout).split(batch_size):
                losses = loss(rows["data"][chosen])
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                optimizer.step()
                optimizer.zero_grad()

        stages = {"collected": collect, "preprocess": advantages, "learn": learn}
        measured(stages, card)
        rows.clear()
        found = measured(stages, card)
    del found["collected"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("sizes", [(96, 32), (80, 64)])
def test_torchrl_is_planned_by_its_own_code(name, sizes):
    networks = torchrl_networks(name)
    rollout, batch_size = sizes
    given = {"rollout": rollout, "batch_size": batch_size, "library": "torchrl-ppo", "device": "cpu"}
    planned = plan(*networks, space_of(name), CHOICE, **given)
    found = measured_torchrl(name, *sizes)
    assert_close(planned, found)
    if name != "recurrent":
        assert planned.stages.items() >= {stage: each[0] for stage, each in found.items()}.items()


def test_a_card_holds_a_copy_of_the_observations():
    on_card, on_cpu = (make_plan("mlp", rollout=64, envs=4096, device=device) for device in ("cuda", "cpu"))
    assert on_card.stages["collect"] - on_cpu.stages["collect"] == 4096 * FEATURES * 4


def test_on_a_card_the_optimizer_works_on_all_parameters_at_once():
    class Deep(DiscreteActor):
        def __init__(self):
            super().__init__(FEATURES, ACTIONS)
            self.body = nn.Sequential(
                mlp(FEATURES, 512), *(nn.Linear(512, 512) for _ in range(9)), nn.Linear(512, ACTIONS)
            )

    on_card, on_cpu = (
        plan(Deep(), VectorCritic(FEATURES), VECTORS, CHOICE, rollout=4, batch_size=2, device=device).stages["learn"]
        for device in ("cuda", "cpu")
    )
    assert on_card - on_cpu > 7 * 512 * 512 * 4  # a square root for each layer, where it was one for all in turn


def test_what_a_cards_libraries_keep_is_in_every_margin(monkeypatch):
    without = make_plan("mlp", rollout=64)
    monkeypatch.setattr(operators, "_workspaces", lambda device: 32 * MIB)
    kept = make_plan("mlp", rollout=64)
    assert kept.stages == without.stages
    for stage, needed in kept.needed.items():
        assert needed - without.needed[stage] == pytest.approx(32 * MIB * (1 + RESERVE), abs=2), stage


def test_operators_are_measured_on_the_device_that_is_planned_for(monkeypatch):
    asked = []
    monkeypatch.setattr(planner, "resolve_device", lambda device: asked.append(device) or torch.device("cpu"))
    for device in ("cpu", "cuda"):
        make_plan("mlp", rollout=64, device=device)
    assert asked == ["cpu", "auto"]  # without a GPU, a plan for a card has what this machine can tell


def test_layers_that_a_card_has_other_operators_for_are_measured_on_the_cpu(monkeypatch):
    asked = []
    monkeypatch.setattr(planner, "resolve_device", lambda device: asked.append(device) or torch.device("cpu"))
    make_plan("recurrent", rollout=64, device="cuda")
    assert asked == ["cpu"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["mlp", "nature", "residual"])
def test_a_plan_for_a_card_holds_on_it(name):
    rollout, max_batchsize, batch_size = 2048, 256, 256
    planned = make_plan(name, rollout=rollout, max_batchsize=max_batchsize, batch_size=batch_size, device="cuda")
    actor, critic = (net.to("cuda") for net in TIANSHOU[name]())
    rows = visual_rollout(rollout) if space_of(name) is FRAMES else vector_rollout(rollout)
    algorithm = ppo(actor, critic, max_batchsize=max_batchsize)
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        algorithm._update_with_batch(preprocess(algorithm, *rows), batch_size, 1)
        found = torch.cuda.max_memory_allocated()
    assert found <= planned.peak_bytes <= (1 + MARGIN) * found


@pytest.mark.filterwarnings("error")  # a minibatch of one, which is tried, has no standard deviation
@pytest.mark.parametrize("rollout", [512, pytest.param(509, marks=pytest.mark.slow)])
def test_the_largest_sizes_fit_and_larger_ones_do_not(rollout):
    planned = make_plan("nature", rollout=rollout, max_batchsize=64, batch_size=64)
    gib = 110 * MIB / 2**30
    fits = {"batch_size": planned.largest_batch_size(gib), "max_batchsize": planned.largest_max_batchsize(gib)}
    assert make_plan("nature", rollout=rollout, **fits).fits(gib)
    for name in fits:
        for more in (1, 2, 5, 30):
            assert not make_plan("nature", rollout=rollout, **{**fits, name: fits[name] + more}).fits(gib), name
    assert planned.largest_batch_size(8) == rollout and planned.largest_batch_size(0.001) == 0


@pytest.mark.slow
def test_the_largest_rollout_fits_and_one_more_chunk_does_not():
    planned = make_plan("mlp", rollout=256, max_batchsize=64, batch_size=64)
    gib = 3 * MIB / 2**30
    rows = planned.largest_rollout(gib)
    assert rows > 10_000
    assert make_plan("mlp", rollout=rows, max_batchsize=64).fits(gib)
    assert not make_plan("mlp", rollout=rows + 64, max_batchsize=64).fits(gib)


@pytest.mark.slow
def test_sizes_that_do_not_divide_each_other():
    planned = make_plan("mlp", rollout=1000, max_batchsize=64, batch_size=1000, device="cuda")
    gib = planned.at(rollout=24_000).peak_bytes / 2**30
    assert planned.largest_rollout(gib) == 24_000 and planned.at(rollout=24_000).fits(gib)
    small = planned.at(max_batchsize=52).needed["preprocess"] / 2**30
    found = planned.largest_max_batchsize(small)
    assert found >= 52 and planned.at(max_batchsize=found).needed["preprocess"] <= small * 2**30


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1000, 5888])
def test_the_longest_rollout_is_found_between_multiples(batch_size):
    planned = make_plan("mlp", rollout=1000, max_batchsize=256, batch_size=batch_size, device="cuda")
    gib = planned.at(rollout=5888).peak_bytes / 2**30
    found = planned.largest_rollout(gib)
    assert found >= 5888 and planned.at(rollout=found).fits(gib)
    assert not any(planned.at(rollout=found + more).fits(gib) for more in (1, 7, 100, 1000, 5000))


def test_where_the_rollout_stays_in_host_memory_the_card_does_not_limit_it():
    planned = plan(sb3_model("mlp", 64, 64).policy, rollout=64, library="sb3-ppo")
    assert planned.largest_rollout(1) is None
    with pytest.raises(CannotPlan, match="no max_batchsize"):
        planned.largest_max_batchsize(1)
    with pytest.raises(CannotPlan, match="max_batchsize is tianshou's"):
        planned.at(max_batchsize=64)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process in /proc")
def test_a_laptop_plans_for_a_large_card():
    script = """
import numpy as np, torch
from pathlib import Path
from gymnasium import spaces
from rlrepro.cases.common.tianshou_ppo import visual_networks
from rlrepro.fit import plan
planned = plan(*visual_networks("nature"), spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6),
               rollout=1_000_000, batch_size=250_000, device_memory_gib=141)
(resident,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(planned.peak_bytes, int(resident.split()[1]) * 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    peak, resident = map(int, done.stdout.split()[-2:])
    assert peak > 100e9 and resident < 1e9


def test_a_plan_is_a_value_that_runs_nothing():
    planned = make_plan("mlp", rollout=64)
    sizes = {"rollout": 64, "max_batchsize": 256, "batch_size": 64, "envs": 1}
    copied = Plan(sizes, 1, stages=planned.stages, margins=planned.margins, _planner=None)
    assert copied == planned.at(device_memory_gib=1) == planned.at(device_memory_gib=1)
    assert copied != planned and copied != planned.at(device_memory_gib=1, rollout=65)
    assert copied.fits() and copied.failing_stage(copied.needed["learn"] / 2**30 - 1e-6) == "learn"


def test_networks_larger_than_this_machine_are_planned_on_the_meta_device():
    with torch.device("meta"):
        networks = DiscreteActor(FEATURES, 10**9), VectorCritic(FEATURES)
        planned = plan(*networks, VECTORS, spaces.Discrete(10**9), rollout=4, batch_size=2)
    assert planned.peak_bytes > 4 * 128 * 10**9 * 4  # weights, gradients and Adam's two
    assert not planned.margins  # nothing could be run


def test_planning_leaves_networks_and_random_numbers_alone():
    actor, critic = TIANSHOU["mlp"]()
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
        ({"rollout": 0}, "rollout must be a whole number, at least 1; found 0"),
        ({"batch_size": 2.5}, "batch_size must be"),
        ({"library": "rllib"}, "tianshou-ppo, tianshou-a2c"),
        ({"library": "torchrl-ppo"}, "actor must be a TensorDict module"),
        ({"library": "sb3-ppo"}, "actor must be an ActorCriticPolicy"),
        ({"optimizer": "adam"}, "optimizer must be a class"),
        ({"dtype": "float16"}, "dtype must be a torch.dtype"),
        ({"rollout": None}, "rollout must be a whole number"),
        ({"device_memory_gib": float("inf")}, "gib must be a positive number"),
        ({"device_memory_gib": "8"}, "gib must be a positive number"),
        ({"rollout": 10**9, "batch_size": 10**9}, "at most 16,777,216 rows at a time"),
        ({"device": "tpu"}, "device must be cuda or cpu"),
        ({"obs_space": CHOICE}, "obs_space must be a gymnasium Box"),
        ({"obs_space": None}, "obs_space must be a gymnasium Box; found None"),
        ({"act_space": spaces.MultiBinary(3)}, "act_space must be a gymnasium Box or Discrete"),
        ({"actor": len}, "actor must be a torch.nn.Module"),
        ({"critic": None}, "critic must be a torch.nn.Module"),
        ({"obs_space": FRAMES}, r"observations of shape \(4, 84, 84\)"),
    ],
)
def test_bad_arguments_are_named(change, message):
    actor, critic = TIANSHOU["mlp"]()
    given = {"actor": actor, "critic": critic, "obs_space": VECTORS, "act_space": CHOICE, "rollout": 64, **change}
    with pytest.raises(CannotPlan, match=message):
        plan(**given)


def test_a_network_whose_shapes_follow_its_numbers_is_refused_by_name_of_the_operator():
    class Looks(DiscreteActor):
        def forward(self, obs, state=None, info=None, **_):
            rows = torch.as_tensor(obs)
            chosen = rows[rows.sum(1) >= 0]
            return self.body(chosen), state

    with pytest.raises(CannotPlan, match="nonzero"):
        plan(Looks(FEATURES, ACTIONS), TIANSHOU["mlp"]()[1], VECTORS, CHOICE, rollout=64)


BUILDER = """
from rlrepro.cases.common.tianshou_vectors import DiscreteActor, VectorCritic
from gymnasium import spaces
def build():
    return DiscreteActor(64, 6), VectorCritic(64), spaces.Box(-1, 1, (64,)), spaces.Discrete(6)
def wrong():
    return 3
def fails():
    return 1 / 0
def leaves():
    raise SystemExit
"""


@pytest.mark.slow
def test_the_command_line_answers_people_and_programs(run_cli, tmp_path):
    (tmp_path / "mine.py").write_text(BUILDER)
    table = run_cli("fit", "mine:build", "--gib", 0.001, "--rollout", 2048)
    assert table.returncode == 1 and "does not fit" in table.stdout and "largest batch_size" in table.stdout
    answer = json.loads(run_cli("fit", "mine:build", "--gib", 8, "--rollout", 2048, "--json").stdout)
    assert answer["fits"] and answer["failing_stage"] is None
    assert set(answer["stages_bytes"]) == set(answer["margins_bytes"]) == {"collect", "preprocess", "learn"}


def test_the_command_names_the_defaults_it_takes(monkeypatch, tmp_path):
    (tmp_path / "named.py").write_text(BUILDER)
    monkeypatch.chdir(tmp_path)
    text, fits = describe_plan("named:build", 0.01)
    assert fits and "planned with --rollout 2048, --batch-size 64, --library tianshou-ppo, --envs 1" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "builder, message",
    [
        ("mine", "MODULE:FUNCTION"),
        ("nowhere:build", "No module named 'nowhere'"),
        ("mine:absent", "no attribute 'absent'"),
        ("mine:wrong", "must return"),
        ("mine:fails", "ZeroDivisionError.*mine.py:9: return 1 / 0"),
        ("mine:leaves", "SystemExit"),
    ],
)
def test_a_builder_that_is_none_is_explained(run_cli, tmp_path, builder, message):
    (tmp_path / "mine.py").write_text(BUILDER)
    done = run_cli("fit", builder, "--gib", 8)
    assert done.returncode == 2 and re.search(message, done.stderr.replace("\n", " "))
