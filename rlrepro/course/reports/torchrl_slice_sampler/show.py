import sys

import torch
from tensordict import TensorDict
from torch.utils._python_dispatch import TorchDispatchMode
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

STORED = 1_000_000


class LargestResult(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.numel = max(self.numel, result.numel())
        return result


def transitions(first, count):  # in episodes of 1,000
    return TensorDict({"episode": torch.arange(first, first + count) // 1_000}, [count])


sampler = SliceSampler(slice_len=4, traj_key="episode", cache_values=True)
buffer = ReplayBuffer(storage=LazyTensorStorage(2 * STORED), sampler=sampler, batch_size=1_024)
buffer.extend(transitions(0, STORED))
buffer.sample()
buffer.extend(transitions(STORED, 100))
with LargestResult() as largest:
    buffer.sample()
print(f"after a write of 100 transitions, sampling 1,024 computed a tensor of {largest.numel:,} elements")
sys.exit(largest.numel >= STORED)
