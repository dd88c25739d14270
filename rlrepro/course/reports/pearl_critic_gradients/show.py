import sys

import torch
from pearl.action_representation_modules.identity_action_representation_module import (
    IdentityActionRepresentationModule,
)
from pearl.policy_learners.sequential_decision_making.soft_actor_critic import SoftActorCritic
from pearl.replay_buffers.transition import TransitionBatch
from pearl.utils.instantiations.spaces.discrete_action import DiscreteActionSpace
from torch.autograd.graph import saved_tensors_hooks

BATCH, ACTIONS, STATE = 16, 500, 32
table = torch.rand(ACTIONS, 2)
learner = SoftActorCritic(
    state_dim=STATE,
    action_space=DiscreteActionSpace(list(table)),
    actor_hidden_dims=[64, 64],
    critic_hidden_dims=[64, 64],
    action_representation_module=IdentityActionRepresentationModule(ACTIONS, 2),
)
batch = TransitionBatch(
    state=torch.rand(BATCH, STATE),
    action=table[:BATCH],
    reward=torch.rand(BATCH),
    curr_available_actions=table.expand(BATCH, -1, -1),
    curr_unavailable_actions_mask=torch.zeros(BATCH, ACTIONS, dtype=torch.bool),
)
saved, get_q_values = [], learner._critic.get_q_values


def recorded(*args, **kwargs):
    with saved_tensors_hooks(lambda tensor: saved.append(tensor.nbytes) or tensor, lambda tensor: tensor):
        return get_q_values(*args, **kwargs)


learner._critic.get_q_values = recorded
learner._actor_loss(batch).backward()
unused = [name for name, weight in learner._critic.named_parameters() if weight.grad is not None]
print(f"for the actor's loss, the critics keep {sum(saved):,} bytes to compute gradients of {len(unused)} of their")
print("parameters, which are set to zero before they are used")
sys.exit(bool(unused))
