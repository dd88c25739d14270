"""Workloads of the fixes: what is stored, and one critic's update and evaluation, plain and factored."""

import bisect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import torch
from tensordict import TensorDict

from rlrepro.cases.large_actions import HIDDEN, STATE
from rlrepro.cases.large_actions.pearl_reimplementation import network, q_values
from rlrepro.fixes import FactoredQ, SharedActionBuffer
from rlrepro.lab.storage_tracker import StorageCount

PAIRS_AT_ONCE = {"cpu": 2**11, "cuda": 2**16}  # few enough for a CPU's caches, enough to fill a GPU
FREE_SHARE = 0.9  # of free memory that a plan may use, since operators also need temporaries
TRANSITIONS = 10  # written to a buffer; its storage then allocates room for all


def stored(count: int, features: int, capacity: int) -> dict[str, float]:
    """Bytes per transition, by part, in a SharedActionBuffer whose transitions alternate between two sets of available
    actions. "shared" is a transition's share of the action table and of the masks."""
    buffer = SharedActionBuffer(capacity, torch.rand(count, features))
    masks = torch.ones(TRANSITIONS, count, dtype=torch.bool)
    masks[::2, 1:] = False
    states = torch.rand(2, TRANSITIONS, STATE)
    flags = torch.zeros(2, TRANSITIONS, dtype=torch.bool)
    fields = {
        "observation": states[0],
        "action": torch.zeros(TRANSITIONS, dtype=torch.long),
        "action_mask": masks,
        "next": {
            "observation": states[1],
            "reward": torch.zeros(TRANSITIONS),
            "done": flags[0],
            "terminated": flags[1],
            "action_mask": masks.flip(0),
        },
    }
    buffer.extend(TensorDict(fields, batch_size=[TRANSITIONS]))
    names = {"observation": "state", "next.observation": "next state", "action": "action"}
    names |= {"action_mask": "masks", "next.action_mask": "masks"}
    sizes = {"shared": (buffer.actions.nbytes + buffer.masks.nbytes) / capacity}
    for name, tensor in buffer.storage._storage.flatten_keys(".").items():
        part = names.get(name, "rest")
        sizes[part] = sizes.get(part, 0) + tensor.untyped_storage().nbytes() / capacity
    return sizes


def plain_update(count: int, features: int, batch_size: int, device: str) -> Callable[[], None]:
    """One critic's forward and backward pass on all actions, as in Pearl."""
    net = network(STATE + features, 1).to(device)
    states, actions = _inputs(count, features, batch_size, device)
    return _update(net, lambda: q_values(net, states, actions.expand(batch_size, -1, -1)))


def factored_update(count: int, features: int, batch_size: int, device: str, **options) -> Callable[[], None]:
    """The same with a FactoredQ that has the same layers; `options` are passed to it."""
    net = FactoredQ(STATE, features, HIDDEN, **options).to(device)
    states, actions = _inputs(count, features, batch_size, device)
    return _update(net, lambda: net(states, actions))


def plain_values(count: int, features: int, batch_size: int, device: str) -> Callable[[], torch.Tensor]:
    """The values of all actions, (batch_size, count), without gradients, as Pearl computes them."""
    net = network(STATE + features, 1).to(device)
    states, actions = _inputs(count, features, batch_size, device)
    return torch.no_grad()(lambda: q_values(net, states, actions.expand(batch_size, -1, -1)))


def factored_values(count: int, features: int, batch_size: int, device: str) -> Callable[[], torch.Tensor]:
    """The same with a FactoredQ that has the same layers."""
    net = FactoredQ(STATE, features, HIDDEN).to(device)
    states, actions = _inputs(count, features, batch_size, device)
    return torch.no_grad()(lambda: net(states, actions))


UPDATES = {"plain": plain_update, "factored": factored_update}
VALUES = {"plain": plain_values, "factored": factored_values}


def matrix_products(count: int, batch_size: int, device: str, *, backward: bool) -> Callable[[], None]:
    """Only the matrix products that every way of computing these values needs: for each pair, those of the layers after
    the first and, in an update, those of the gradients of these layers' inputs and weights."""
    pairs = count * batch_size
    chunk = min(pairs, PAIRS_AT_ONCE[torch.device(device).type])
    layers = [
        (torch.rand(chunk, fan_in, device=device), torch.rand(chunk, fan_out, device=device), weight)
        for fan_in, fan_out in itertools.pairwise((*HIDDEN, 1))
        for weight in [torch.rand(fan_in, fan_out, device=device)]
    ]

    def multiply():
        for start in range(0, pairs, chunk):
            for inputs, gradients, weight in layers:
                inputs, gradients = inputs[: pairs - start], gradients[: pairs - start]
                inputs @ weight
                if backward:
                    gradients @ weight.T
                    inputs.T @ gradients

    return multiply


def precisions(device: str) -> list[str]:
    """The arguments of torch.set_float32_matmul_precision that make a difference on this device."""
    return ["highest", "high"] if device.startswith("cuda") else ["highest"]


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Compute float32 matrix products in this precision; "high" is TF32 on a GPU."""
    previous = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(previous)


def free_bytes(device: str) -> int:
    """Free memory on this device."""
    if not device.startswith("cuda"):
        return psutil.virtual_memory().available
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(torch.device(device))[0]


def planned_peak(make_update: Callable[..., Callable[[], None]], *sizes, **options) -> int:
    """Peak bytes of an update's tensors, measured on the meta device, which computes and allocates nothing. Temporaries
    inside operators are not included."""
    update = make_update(*sizes, "meta", **options)
    with StorageCount(None, torch.device("meta")) as storages:
        update()
    return storages.peak_bytes


def largest_plain(features: int, batch_size: int, limit_bytes: int) -> int:
    """The largest number of actions whose planned plain update fits into `limit_bytes`."""
    return bisect.bisect_right(
        range(1, 2**20), limit_bytes, key=lambda count: planned_peak(plain_update, count, features, batch_size)
    )


def _inputs(count, features, batch_size, device):
    return torch.rand(batch_size, STATE, device=device), torch.rand(count, features, device=device)


def _update(net, compute_values):
    def update():
        net.zero_grad()
        compute_values().square().mean().backward()

    return update
