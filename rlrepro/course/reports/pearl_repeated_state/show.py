import sys

import torch
from pearl.neural_networks.sequential_decision_making.q_value_networks import VanillaQValueNetwork
from torch.utils._python_dispatch import TorchDispatchMode

BATCH, ACTIONS, STATE = 8, 1_000, 768


class LargestResult(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.numel = max(self.numel, result.numel())
        return result


network = VanillaQValueNetwork(STATE, 2, hidden_dims=[64, 64], output_dim=1)
with LargestResult() as largest:
    network.get_q_values(torch.rand(BATCH, STATE), torch.rand(BATCH, ACTIONS, 2))
print(f"for {BATCH} states of {STATE} numbers, a tensor of {largest.numel:,} elements was created;")
print(f"the activations of a hidden layer have {BATCH * ACTIONS * 64:,}")
sys.exit(largest.numel >= BATCH * ACTIONS * STATE)
