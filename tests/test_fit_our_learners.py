"""Our own learners and TorchRL's losses, planned and run."""

from functools import partial

import pytest
import torch
from torch import nn

pytest.importorskip("torchrl")
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torchrl.data import Bounded, LazyTensorStorage, OneHot, ReplayBuffer
from torchrl.modules import ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, DQNLoss, IQLLoss, SACLoss, SoftUpdate, TD3Loss

from rlrepro.fit import CannotPlan, plan_torchrl, plan_update
from rlrepro.fixes import EnsemblePPO, FactoredDQN, FactoredQ, FactoredSAC, SharedActionBuffer

from .test_fit_own_update import measured

OBS, ACT, STORED, ROWS, TABLE = 17, 6, 3000, 128, 500


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS + ACT, 1)

    def forward(self, obs, action):
        return self.net(torch.cat([obs, action], -1))


def actor():
    parameters = nn.Sequential(mlp(OBS, 2 * ACT), NormalParamExtractor())
    module = TensorDictModule(parameters, ["observation"], ["loc", "scale"])
    options = {"distribution_class": TanhNormal, "spec": Bounded(-1, 1, (ACT,)), "return_log_prob": True}
    return ProbabilisticActor(module, in_keys=["loc", "scale"], **options)


def q_value():
    return ValueOperator(Critic(), in_keys=["observation", "action"])


def value():
    return ValueOperator(mlp(OBS, 1), in_keys=["observation"])


def dqn():
    network = QValueActor(mlp(OBS, ACT), in_keys=["observation"], spec=OneHot(ACT))
    return DQNLoss(network, delay_value=True, action_space="one-hot")


def td3():
    deterministic = TensorDictModule(nn.Sequential(mlp(OBS, ACT), nn.Tanh()), ["observation"], ["action"])
    return TD3Loss(deterministic, q_value(), bounds=(-1, 1))


LOSSES = {
    "ClipPPO": lambda: ClipPPOLoss(actor(), value()),
    "DQN": dqn,
    "SAC": lambda: SACLoss(actor(), q_value()),
    "TD3": td3,
    "IQL": lambda: IQLLoss(actor(), q_value(), value()),
}


def make(name, device="cpu", buffer_size=STORED):
    loss = LOSSES[name]().to(device)
    optimizer = torch.optim.Adam(parameter for parameter in loss.parameters() if parameter.requires_grad)
    updater = None if name == "ClipPPO" else SoftUpdate(loss, eps=0.995)
    return loss, optimizer, ReplayBuffer(storage=LazyTensorStorage(buffer_size), batch_size=ROWS), updater


def transitions(name, rows):
    action = torch.rand(rows, ACT)
    if name == "DQN":
        action = nn.functional.one_hot(torch.zeros(rows, dtype=torch.long), ACT)
    done_flags = {key: torch.zeros(rows, 1, dtype=torch.bool) for key in ("done", "terminated")}
    next_data = {"observation": torch.randn(rows, OBS), "reward": torch.zeros(rows, 1), **done_flags}
    data = {"observation": torch.randn(rows, OBS), "action": action, "next": TensorDict(next_data, [rows])}
    if name == "ClipPPO":
        data |= {"action_log_prob": torch.zeros(rows), "advantage": torch.randn(rows, 1)}
        data |= {"value_target": torch.randn(rows, 1)}
    return TensorDict(data, [rows])


def filled(name):
    state = make(name)
    for rows in (STORED, 1):  # a buffer keeps the indices of its last write
        state[2].extend(transitions(name, rows))
    return state


def update(state):
    loss, optimizer, buffer, updater = state
    batch = buffer.sample()
    losses = loss(batch)
    sum(term for key, term in losses.items() if key.startswith("loss")).backward()
    optimizer.step()
    optimizer.zero_grad()
    if updater is not None:
        updater.step()


@pytest.mark.parametrize("name", LOSSES)
def test_torchrls_losses_are_planned_to_the_byte(name):
    planned = plan_torchrl(partial(make, name), partial(transitions, name), batch_size=ROWS, device="cpu")
    assert max(planned.stages["sample"], planned.stages["learn"]) == measured(partial(filled, name), update)


@pytest.mark.slow
def test_a_buffer_of_torchrl_is_where_its_storage_is():
    small, large = (
        plan_torchrl(partial(make, "SAC", device="cuda"), partial(transitions, "SAC"), buffer_size=size)
        for size in (STORED, 100 * STORED)
    )
    per_transition = 4 * (2 * OBS + ACT + 1) + 2
    added = large.host_bytes - small.host_bytes
    assert added == pytest.approx(99 * STORED * per_transition, abs=512) and large.stages == small.stages  # and objects
    with pytest.raises(CannotPlan, match=r"make must return \(loss, optimizer, replay buffer"):
        plan_torchrl(lambda: 3, partial(transitions, "SAC"))


def q_network():
    return FactoredQ(OBS, ACT, (64, 64))


def batch(rows):
    outcome = {"reward": torch.zeros(rows, 1), "terminated": torch.zeros(rows, 1, dtype=torch.bool)}
    next_data = TensorDict({"observation": torch.randn(rows, OBS), **outcome}, [rows])
    action = torch.zeros(rows, dtype=torch.long)
    return TensorDict({"observation": torch.randn(rows, OBS), "action": action, "next": next_data}, [rows])


def with_buffer(learner):
    buffer = SharedActionBuffer(STORED, torch.randn(TABLE, ACT), batch_size=ROWS)
    buffer.extend(batch(10))
    return learner(buffer.actions), buffer


def learn(state):
    learner, buffer = state
    learner.update(buffer.sample())


def ensemble():
    return EnsemblePPO("Pendulum-v1", seeds=range(4), n_steps=64, n_epochs=1)


OURS = {
    "FactoredDQN": (partial(with_buffer, lambda actions: FactoredDQN(q_network(), actions)), learn),
    "FactoredSAC": (
        partial(with_buffer, lambda actions: FactoredSAC(q_network(), (q_network(), q_network()), actions)),
        learn,
    ),
    "EnsemblePPO": (ensemble, lambda state: state.update(state.collect())),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_our_learners_are_planned_to_the_byte(name):
    make, step = OURS[name]
    assert plan_update(make, step, device="cpu").stages["update"] == measured(make, step)
