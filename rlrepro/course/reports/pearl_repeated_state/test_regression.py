import unittest

import torch
from pearl.neural_networks.sequential_decision_making.q_value_networks import VanillaQValueNetwork
from torch.utils._python_dispatch import TorchDispatchMode

BATCH, ACTIONS, STATE, ACTION = 3, 7, 50, 2


class LargestResult(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.numel = max(self.numel, result.numel())
        return result


class TestVanillaQValueNetworkWithManyActions(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        self.states = torch.rand(BATCH, STATE, requires_grad=True)
        self.actions = torch.rand(BATCH, ACTIONS, ACTION)

    def test_state_is_not_repeated_for_each_action(self) -> None:
        network = VanillaQValueNetwork(STATE, ACTION, [16, 8], 1)
        with LargestResult() as largest:
            network.get_q_values(self.states, self.actions)
        self.assertLess(largest.numel, BATCH * ACTIONS * STATE)

    def test_values_and_gradients_are_those_of_forward(self) -> None:
        for hidden_dims in ([], [16], [16, 8]):
            for use_layer_norm in (False, True):
                network = VanillaQValueNetwork(STATE, ACTION, hidden_dims, 1, use_layer_norm)
                repeated = self.states.unsqueeze(1).expand(-1, ACTIONS, -1)
                expected = network(torch.cat([repeated, self.actions], dim=-1)).squeeze(-1)
                values = network.get_q_values(self.states, self.actions)
                torch.testing.assert_close(values, expected)
                inputs = [self.states, *network.parameters()]
                for grad, expected_grad in zip(
                    torch.autograd.grad(values.square().sum(), inputs),
                    torch.autograd.grad(expected.square().sum(), inputs),
                    strict=True,
                ):
                    torch.testing.assert_close(grad, expected_grad)

    def test_one_action_per_state(self) -> None:
        network = VanillaQValueNetwork(STATE, 1, [16, 8], 1)
        actions = torch.arange(BATCH).view(-1, 1)  # integers, as some environments have them
        values = network.get_q_values(self.states, actions)
        self.assertEqual(values.shape, (BATCH,))
        torch.testing.assert_close(values, network(torch.cat([self.states, actions], dim=-1)).squeeze(-1))


if __name__ == "__main__":
    unittest.main()
