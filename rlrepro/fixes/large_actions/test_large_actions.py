"""FactoredQ, its learners and SharedActionBuffer, with the installed torch and torchrl."""

import pytest
import torch
from tensordict import TensorDict
from torch import nn

from .factored_dqn import FactoredDQN
from .factored_q import FactoredQ
from .factored_sac import FactoredSAC
from .shared_action_buffer import SharedActionBuffer

STATES, ACTIONS, FEATURES, BATCH = 6, 100, 3, 16


def table():
    return torch.randn(ACTIONS, FEATURES, generator=torch.Generator().manual_seed(0))


def filled_buffer():
    torch.manual_seed(0)
    buffer = SharedActionBuffer(100, table(), batch_size=BATCH)
    observation, next_observation = torch.randn(2, 80, STATES)
    action = torch.randint(ACTIONS, (80,))
    next_fields = {
        "observation": next_observation,
        "reward": torch.randn(80, 1),
        "terminated": torch.zeros(80, 1, dtype=torch.bool),
    }
    mask = torch.rand(80, ACTIONS) < 0.5
    mask[torch.arange(80), action] = True
    fields = {
        "observation": observation,
        "action": action,
        "action_mask": mask,
        "next": next_fields | {"action_mask": mask},
    }
    data = TensorDict(fields, [80])
    buffer.extend(data)
    return buffer, data


def test_values_and_gradients_are_the_plain_networks():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(STATES + FEATURES, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    factored = FactoredQ.from_sequential(plain, STATES, chunk=64)
    states, actions = torch.randn(BATCH, STATES), table()
    pairs = torch.cat([states.repeat_interleave(ACTIONS, 0), actions.repeat(BATCH, 1)], 1)
    expected, values = plain(pairs).view(BATCH, ACTIONS), factored(states, actions)
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=1e-4)
    expected.square().mean().backward()
    values.square().mean().backward()
    gradient = torch.cat([factored.state_layer.weight.grad, factored.action_layer.weight.grad], 1)
    torch.testing.assert_close(gradient, plain[0].weight.grad, atol=1e-5, rtol=1e-4)


def test_a_batch_contains_what_was_stored():
    buffer, data = filled_buffer()
    batch = buffer.sample()
    for sample in batch:
        (index,) = torch.nonzero((data["observation"] == sample["observation"]).all(1)).flatten().tolist()
        assert data["action"][index] == sample["action"]
        assert torch.equal(data["action_mask"][index], sample["action_mask"])
        assert torch.equal(data["next", "action_mask"][index], sample["next", "action_mask"])


def critic():
    return FactoredQ(STATES, FEATURES, (32, 16))


@pytest.mark.parametrize("learner_class", [FactoredDQN, FactoredSAC])
def test_a_learner_learns(learner_class):
    buffer, _ = filled_buffer()
    networks = [critic()] if learner_class is FactoredDQN else [critic(), (critic(), critic())]
    learner = learner_class(*networks, table(), discount=0.0, learning_rate=1e-2)
    key = "loss" if learner_class is FactoredDQN else "critic_loss"
    losses = [learner.update(buffer.sample())[key] for _ in range(100)]
    assert sum(losses[-20:]) < 0.5 * sum(losses[:20])
