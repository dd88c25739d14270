"""FactoredDQN and FactoredSAC: the targets of an update, and the success of training."""

import pytest
import torch
from tensordict import TensorDict

from rlrepro.fixes import FactoredDQN, FactoredQ, FactoredSAC

STATE, ACTIONS = 4, 30
TABLE = torch.randn(ACTIONS, 2, generator=torch.Generator().manual_seed(1))


def make_batch(size=6, masked=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(2, size, ACTIONS, generator=generator) < 0.4
    mask[:, :, 0] = True
    data = {
        "observation": torch.randn(size, STATE, generator=generator),
        "action": torch.randint(ACTIONS, (size,), generator=generator),
        "next": {
            "observation": torch.randn(size, STATE, generator=generator),
            "reward": torch.randn(size, 1, generator=generator),
            "terminated": torch.rand(size, 1, generator=generator) < 0.5,
        },
    }
    if masked:
        data["action_mask"], data["next"]["action_mask"] = mask
    return TensorDict(data, batch_size=[size])


def network(seed):
    torch.manual_seed(seed)
    return FactoredQ(STATE, 2, (16, 8))


def perturb_targets(learner):
    """Make the targets differ from the online networks, so that mixing them up shows."""
    with torch.no_grad():
        for target in getattr(learner, "targets", None) or [learner.target]:
            for weight in target.parameters():
                weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)), alpha=0.3)
    return learner


@pytest.mark.parametrize("masked", [False, True])
def test_dqn_learns_the_targets_value_of_the_networks_greedy_action(masked):
    learner, batch = perturb_targets(FactoredDQN(network(0), TABLE, discount=0.9)), make_batch(masked=masked)
    next_states, mask = batch["next", "observation"], batch.get(("next", "action_mask"), None)
    values = learner.network(next_states, TABLE)
    greedy = (values if mask is None else values.masked_fill(~mask, -torch.inf)).argmax(dim=1)
    next_values = learner.target(next_states, TABLE)[torch.arange(6), greedy]
    not_terminated = (~batch["next", "terminated"][:, 0]).float()
    expected = batch["next", "reward"][:, 0] + 0.9 * not_terminated * next_values
    assert torch.allclose(learner.td_targets(batch), expected, atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_sac_learns_from_the_soft_value_under_its_policy(masked):
    learner = perturb_targets(FactoredSAC(network(0), (network(1), network(2)), TABLE, discount=0.9))
    learner.log_temperature.data.fill_(-1.0)
    batch = make_batch(masked=masked)
    next_states, mask = batch["next", "observation"], batch.get(("next", "action_mask"), None)
    logits = learner.actor(next_states, TABLE)
    policy = (logits if mask is None else logits.masked_fill(~mask, -1e9)).softmax(dim=1)
    values = torch.minimum(*(target(next_states, TABLE) for target in learner.targets))
    soft = (policy * (values - learner.temperature * policy.clamp_min(1e-30).log())).sum(dim=1)
    expected = batch["next", "reward"][:, 0] + 0.9 * (~batch["next", "terminated"][:, 0]).float() * soft
    assert torch.allclose(learner.td_targets(batch), expected, atol=1e-5)


@pytest.mark.parametrize("make", [FactoredDQN, lambda net, table: FactoredSAC(net, (network(1), network(2)), table)])
def test_the_environments_shapes_and_dtypes_do_not_matter(make):
    learner, batch = make(network(0), TABLE), make_batch(masked=True)
    expected = learner.td_targets(batch)
    converted = batch.clone()
    converted["next", "terminated"] = batch["next", "terminated"].to(torch.uint8)
    converted["next", "reward"] = batch["next", "reward"][:, 0]
    terminated = batch["next", "terminated"][:, 0]
    converted["next", "action_mask"][terminated] = False  # after the episode's end, an environment may list no action
    assert terminated.any() and torch.equal(learner.td_targets(converted), expected)
    converted["action"] = batch["action"].unsqueeze(1)
    assert learner.update(converted) == make(network(0), TABLE).update(batch)


def test_the_actors_loss_has_no_gradient_for_the_critics():
    learner, batch = FactoredSAC(network(0), (network(1), network(2)), TABLE), make_batch(masked=True)
    loss, entropy, max_entropy = learner._actor_loss(batch["observation"], batch["action_mask"])
    loss.backward()
    assert all(weight.grad is None for critic in learner.critics for weight in critic.parameters())
    assert all(weight.grad.isfinite().all() for weight in learner.actor.parameters())
    assert (entropy <= max_entropy + 1e-6).all()


def regret_after_training(learner, steps, **act):
    """Train on a task whose best action is known: the reward is the negative squared distance between the action's
    features and the state's first two numbers. Returns the mean regret, and that of random actions."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    for _ in range(steps):
        states = torch.rand(64, STATE, generator=generator) * 2 - 1
        actions = torch.randint(ACTIONS, (64,), generator=generator)
        reward = -(TABLE[actions] - states[:, :2]).square().sum(dim=1)
        transition = {"observation": states, "reward": reward, "terminated": torch.ones(64, dtype=torch.bool)}
        learner.update(TensorDict({"observation": states, "action": actions, "next": transition}, batch_size=[64]))
    states = torch.rand(500, STATE, generator=generator) * 2 - 1
    rewards = -(TABLE.unsqueeze(0) - states[:, :2].unsqueeze(1)).square().sum(dim=2)
    chosen_actions = learner.act(states, **act)
    return (rewards.amax(dim=1) - rewards[torch.arange(500), chosen_actions]).mean(), (
        rewards.amax(1) - rewards.mean(1)
    ).mean()


@pytest.mark.slow
def test_dqn_finds_the_best_action():
    regret, random_regret = regret_after_training(FactoredDQN(FactoredQ(STATE, 2, (64, 64)), TABLE), 600)
    assert regret < 0.02 * random_regret


@pytest.mark.slow
def test_sac_finds_the_best_action():
    networks = [FactoredQ(STATE, 2, (64, 64)) for _ in range(3)]
    regret, random_regret = regret_after_training(
        FactoredSAC(networks[0], (networks[1], networks[2]), TABLE, entropy_share=0.2), 600, greedy=True
    )
    assert regret < 0.05 * random_regret


def test_a_state_without_an_action_is_refused():
    learner = FactoredSAC(network(0), (network(1), network(2)), TABLE)
    with pytest.raises(ValueError, match=r"every state needs an available action; states \[0, 1\] have none"):
        learner.act(torch.zeros(2, STATE), torch.zeros(2, ACTIONS, dtype=torch.bool))
