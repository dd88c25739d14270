import unittest

import torch
from pearl.replay_buffers import BasicReplayBuffer
from pearl.replay_buffers.transition import TransitionBatch
from pearl.utils.instantiations.spaces.discrete_action import DiscreteActionSpace

MAX_NUMBER_ACTIONS = 5


def push(buffer: BasicReplayBuffer, curr_actions: list[int], next_actions: list[int]) -> None:
    table = torch.arange(2.0 * MAX_NUMBER_ACTIONS).view(-1, 2)
    buffer.push(
        state=torch.rand(3),
        action=table[curr_actions[0]],
        reward=float(curr_actions[0]),
        terminated=False,
        truncated=False,
        curr_available_actions=DiscreteActionSpace([table[i] for i in curr_actions]),
        next_state=torch.rand(3),
        next_available_actions=DiscreteActionSpace([table[i] for i in next_actions]),
        max_number_actions=MAX_NUMBER_ACTIONS,
    )


def storages(buffer: BasicReplayBuffer, name: str) -> set[int]:
    return {getattr(transition, name).data_ptr() for transition in buffer.memory}


class TestSharedAvailableActions(unittest.TestCase):
    def test_equal_actions_are_stored_once(self) -> None:
        buffer = BasicReplayBuffer(10)
        for _ in range(10):
            push(buffer, [0, 1, 2], [0, 1, 2])
        for name in ("available_actions", "unavailable_actions_mask"):
            self.assertEqual(len(storages(buffer, f"curr_{name}") | storages(buffer, f"next_{name}")), 1)

    def test_actions_that_change_are_kept_apart(self) -> None:
        buffer = BasicReplayBuffer(10)
        steps = [([0, 1], [2, 3]), ([2, 3], [0, 1, 4]), ([0, 1, 4], [0, 1, 4]), ([0, 1, 4], [4])]
        for curr_actions, next_actions in steps:
            push(buffer, curr_actions, next_actions)
        for transition, (curr_actions, next_actions) in zip(buffer.memory, steps, strict=True):
            for prefix, available in (("curr", curr_actions), ("next", next_actions)):
                actions = getattr(transition, f"{prefix}_available_actions")[0]
                mask = getattr(transition, f"{prefix}_unavailable_actions_mask")[0]
                self.assertEqual((actions[~mask][:, 0] / 2).tolist(), [float(i) for i in available])
                self.assertEqual(int((~mask).sum()), len(available))

    def test_changing_a_sample_does_not_change_the_buffer(self) -> None:
        buffer = BasicReplayBuffer(2)
        push(buffer, [0, 1], [0, 1])
        batch = buffer.sample(1)
        self.assertIsInstance(batch, TransitionBatch)
        batch.curr_available_actions.fill_(-1)
        self.assertGreaterEqual(float(buffer.memory[0].curr_available_actions.min()), 0)


if __name__ == "__main__":
    unittest.main()
