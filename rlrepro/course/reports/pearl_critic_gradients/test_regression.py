import copy
import unittest

import torch
from pearl.action_representation_modules.identity_action_representation_module import (
    IdentityActionRepresentationModule,
)
from pearl.history_summarization_modules.identity_history_summarization_module import (
    IdentityHistorySummarizationModule,
)
from pearl.policy_learners.sequential_decision_making.soft_actor_critic import SoftActorCritic
from pearl.replay_buffers.transition import TransitionBatch
from pearl.utils.instantiations.spaces.discrete_action import DiscreteActionSpace

BATCH, ACTIONS, STATE = 4, 6, 3


class TestSoftActorCriticActorLoss(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        table = torch.rand(ACTIONS, 2)
        self.learner = SoftActorCritic(
            state_dim=STATE,
            action_space=DiscreteActionSpace(list(table)),
            actor_hidden_dims=[8],
            critic_hidden_dims=[8],
            action_representation_module=IdentityActionRepresentationModule(ACTIONS, 2),
        )
        self.learner.set_history_summarization_module(IdentityHistorySummarizationModule())
        mask = torch.zeros(BATCH, ACTIONS, dtype=torch.bool)
        mask[:, -1] = True
        self.batch = TransitionBatch(
            state=torch.rand(BATCH, STATE),
            action=table[:BATCH],
            reward=torch.rand(BATCH),
            next_state=torch.rand(BATCH, STATE),
            terminated=torch.zeros(BATCH, dtype=torch.bool),
            curr_available_actions=table.expand(BATCH, -1, -1).clone(),
            curr_unavailable_actions_mask=mask,
            next_available_actions=table.expand(BATCH, -1, -1).clone(),
            next_unavailable_actions_mask=mask.clone(),
        )

    def reference_loss(self, learner: SoftActorCritic, batch: TransitionBatch) -> torch.Tensor:
        q = torch.minimum(*learner._critic.get_q_values(batch.state, batch.curr_available_actions))
        q = q.masked_fill(batch.curr_unavailable_actions_mask, 0.0)
        probs = learner._actor.get_policy_distribution(
            state_batch=batch.state,
            available_actions=batch.curr_available_actions,
            unavailable_actions_mask=batch.curr_unavailable_actions_mask,
        )
        return (probs * (learner._entropy_coef * torch.log(probs + 1e-8) - q)).mean()

    def test_critics_get_no_gradients(self) -> None:
        self.learner._actor_loss(self.batch).backward()
        self.assertTrue(all(weight.grad is None for weight in self.learner._critic.parameters()))

    def test_actor_gets_the_same_gradients(self) -> None:
        reference = copy.deepcopy(self.learner)
        self.learner._actor_loss(self.batch).backward()
        self.reference_loss(reference, self.batch).backward()
        for weight, expected in zip(self.learner._actor.parameters(), reference._actor.parameters(), strict=True):
            self.assertTrue(torch.equal(weight.grad, expected.grad))
            self.assertTrue(weight.grad.any())

    def test_learned_history_gets_the_same_gradients(self) -> None:
        grads = []
        for loss in (self.learner._actor_loss, lambda batch: self.reference_loss(self.learner, batch)):
            batch = copy.copy(self.batch)
            batch.state = self.batch.state.clone().requires_grad_()
            loss(batch).backward()
            grads.append(batch.state.grad)
        torch.testing.assert_close(grads[0], grads[1])

    def test_an_update_changes_actor_and_critics(self) -> None:
        before = {name: weight.clone() for name, weight in self.learner.named_parameters()}
        self.learner.learn_batch(self.batch)
        changed = {name for name, weight in self.learner.named_parameters() if not torch.equal(weight, before[name])}
        self.assertTrue(any("_critic." in name for name in changed) and any("_actor." in name for name in changed))


if __name__ == "__main__":
    unittest.main()
