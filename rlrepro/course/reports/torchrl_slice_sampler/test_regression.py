import pytest
import torch
from tensordict import TensorDict
from torch.utils._python_dispatch import TorchDispatchMode
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler, find_start_stop_traj
from torchrl.data.replay_buffers import Sequence


class LargestResult(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.numel = max(self.numel, result.numel())
        return result


class TestSliceSamplerAfterWrite:
    def test_boundaries_are_not_recomputed(self):
        size = 100_000
        sampler = SliceSampler(slice_len=4, traj_key="episode", cache_values=True)
        rb = ReplayBuffer(storage=LazyTensorStorage(size), sampler=sampler, batch_size=64)
        rb.extend(TensorDict({"episode": torch.arange(size) // 100}, [size]))
        rb.sample()
        rb.extend(TensorDict({"episode": torch.full((10,), size)}, [10]))
        with LargestResult() as largest:
            rb.sample()
        assert largest.numel < size // 10

    def test_a_sequence_does_not_recompute_boundaries(self):
        size = 100_000
        rb = ReplayBuffer(storage=LazyTensorStorage(size), batch_size=64)
        done = (torch.arange(size) % 100 == 99).unsqueeze(-1)
        rb.extend(TensorDict({("next", "done"): done}, [size]))
        unit, anchors = Sequence(length=8), torch.arange(0, size, 1_000)
        unit.expand(anchors, {}, rb.storage)
        rb.extend(TensorDict({("next", "done"): ~done[:10]}, [10]))
        with LargestResult() as largest:
            indices, _ = unit.expand(anchors, {}, rb.storage)
        assert largest.numel < size // 10
        assert indices[:8].tolist() == [0] * 8  # the first row is an episode of its own now

    @pytest.mark.parametrize("by_end", [False, True])
    @pytest.mark.parametrize("seed", range(5))
    def test_boundaries_are_those_of_a_full_scan(self, by_end, seed):
        generator = torch.Generator().manual_seed(seed)
        keys = {"end_key": ("next", "done")} if by_end else {"traj_key": "episode"}
        sampler = SliceSampler(slice_len=1, cache_values=True, **keys)
        rb = ReplayBuffer(storage=LazyTensorStorage(50), sampler=sampler, batch_size=4)
        episode = 0
        for _ in range(60):
            count = int(torch.randint(1, 20, (), generator=generator))
            done = torch.rand(count, generator=generator) < 0.2
            ids = episode + torch.cat([done.new_zeros(1).long(), done[:-1].cumsum(0)])
            episode = int(ids[-1] + done[-1])
            data = {"episode": ids, ("next", "done"): done.unsqueeze(-1)}
            rb.extend(TensorDict(data, [count]))
            storage = rb.storage
            if count == 1:  # without recording which rows
                storage[:]["episode"][0] = -1
                storage[:]["next", "done"][0] = True
                storage._bump_mutation_revision()
            elif count == 2:  # not at the head
                storage[0:1] = TensorDict({"episode": torch.tensor([-2]), ("next", "done"): done[:1, None]}, [1])
            elif count == 3:
                continue  # two writes at once
            signal = storage[:]["next", "done"].squeeze(-1) if by_end else storage[:]["episode"]
            expected = find_start_stop_traj(
                **{"end" if by_end else "trajectory": signal},
                at_capacity=storage._is_full,
                cursor=storage._last_cursor_index,
            )
            for value, expected_value in zip(sampler._get_stop_and_length(storage), expected, strict=True):
                torch.testing.assert_close(value, expected_value)
