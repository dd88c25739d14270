"""Plans for Stable-Baselines3 and TorchRL, against an update by each of them."""

from functools import cache, partial

import pytest
import torch

from rlrepro.cases.common.tianshou_ppo import ACTIONS
from rlrepro.cases.two_batch_sizes.error_study import library_runs
from rlrepro.fit import CannotPlan, plan
from rlrepro.lab import VirtualCard

from .fit_networks import BODIES, CHOICE, FRAMES, assert_close, assert_exact, space_of


def sb3_model(name, rollout, batch_size):
    """Stable-Baselines3's PPO on the named network, with a full rollout buffer."""
    body = BODIES[name](64), 64
    return library_runs.sb3_model(body, space_of(name), CHOICE, torch.optim.Adam, rollout, batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")  # codespell:ignore
@pytest.mark.parametrize("sizes", [(64, 32), (100, 30)])
def test_sb3_is_planned_by_its_own_code(name, sizes):
    model = cache(partial(sb3_model, name, *sizes))
    measured = library_runs.run_sb3(model)
    planned = plan(model().policy, rollout=sizes[0], batch_size=sizes[1], library="sb3-ppo", device="cpu")
    assert_close(planned, measured)
    if name != "recurrent":
        assert planned.stages["learn"] == pytest.approx(measured["learn"][0], abs=256)  # a vector of a minibatch


@pytest.mark.slow
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
            observations = torch.zeros((rollout, *space_of(name).shape), dtype=dtype)
            data = TensorDict({"observation": observations}, [rollout])
            data.update({"logits": torch.zeros(rollout, ACTIONS), "action": torch.zeros(rollout, dtype=torch.int64)})
            data["action_log_prob"] = torch.zeros(rollout)
            done_flags = {key: torch.zeros(rollout, 1, dtype=torch.bool) for key in ("done", "terminated", "truncated")}
            next_data = {"observation": torch.zeros_like(observations), "reward": torch.zeros(rollout, 1), **done_flags}
            rows["data"] = data.set("next", TensorDict(next_data, [rollout]))

        def advantages():
            with torch.no_grad():
                advantage(rows["data"])

        def learn():
            for indices in torch.randperm(rollout).split(batch_size):
                losses = loss(rows["data"][indices])
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                optimizer.step()
                optimizer.zero_grad()

        stages = {"collected": collect, "preprocess": advantages, "learn": learn}
        library_runs.measured(stages, card)
        rows.clear()
        peaks = library_runs.measured(stages, card)
    del peaks["collected"]
    return peaks


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("sizes", [(96, 32), (80, 64)])
def test_torchrl_is_planned_by_its_own_code(name, sizes):
    networks = torchrl_networks(name)
    rollout, batch_size = sizes
    options = {"rollout": rollout, "batch_size": batch_size, "library": "torchrl-ppo", "device": "cpu"}
    planned = plan(*networks, space_of(name), CHOICE, **options)
    measured = measured_torchrl(name, *sizes)
    assert_close(planned, measured)
    if name != "recurrent":
        assert_exact(planned, measured)


@pytest.mark.slow
def test_where_the_rollout_stays_in_host_memory_the_card_does_not_limit_it():
    planned = plan(sb3_model("mlp", 64, 64).policy, rollout=64, library="sb3-ppo")
    assert planned.largest_rollout(1) is None
    with pytest.raises(CannotPlan, match="no max_batchsize"):
        planned.largest_max_batchsize(1)
    with pytest.raises(CannotPlan, match="max_batchsize is for tianshou only"):
        planned.at(max_batchsize=64)
