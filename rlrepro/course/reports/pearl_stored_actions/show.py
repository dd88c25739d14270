import sys

import torch
from pearl.replay_buffers import BasicReplayBuffer
from pearl.utils.instantiations.spaces.discrete_action import DiscreteActionSpace

ACTIONS, TRANSITIONS = 10_000, 50
space = DiscreteActionSpace(list(torch.rand(ACTIONS, 2)))
buffer = BasicReplayBuffer(TRANSITIONS)
for _ in range(TRANSITIONS):
    buffer.push(
        state=torch.rand(4),
        action=space[0],
        reward=0.0,
        terminated=False,
        truncated=False,
        curr_available_actions=space,
        next_state=torch.rand(4),
        next_available_actions=space,
    )
tensors = [value for t in buffer.memory for value in vars(t).values() if isinstance(value, torch.Tensor)]
stored = sum({tensor.data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
table = ACTIONS * (2 * 4 + 1)  # bytes of the actions and their mask, once
print(f"{TRANSITIONS} transitions take {stored:,} bytes; the {ACTIONS:,} actions that they share take {table:,}")
sys.exit(stored > 2 * table)
