"""What is run on the cures: the same critic's update, plain and factored, and what is stored."""

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

PAIRS_AT_ONCE = {"cpu": 2**11, "cuda": 2**16}  # of a state and an action: what stays in a CPU's caches, and fills a GPU
ROOM = 0.9  # of what is free, up to which a plan may go: operators take something on top


def stored(count: int, features: int, transitions: int) -> dict[str, float]:
    """Bytes a transition takes in a SharedActionBuffer of so many, by part, with availability that changes between
    two sets; "shared" is its part of the action table and of the masks."""
    buffer = SharedActionBuffer(transitions, torch.rand(count, features))
    some = torch.ones(transitions, count, dtype=torch.bool)
    some[::2, 1:] = False
    states = torch.rand(2, transitions, STATE)
    flags = torch.zeros(2, transitions, dtype=torch.bool)
    data = {
        "observation": states[0],
        "action": torch.zeros(transitions, dtype=torch.long),
        "action_mask": some,
        "next": {
            "observation": states[1],
            "reward": torch.zeros(transitions),
            "done": flags[0],
            "terminated": flags[1],
            "action_mask": some.flip(0),
        },
    }
    buffer.extend(TensorDict(data, batch_size=[transitions]))
    names = {"observation": "state", "next.observation": "next state", "action": "action"}
    names |= {"action_mask": "masks", "next.action_mask": "masks"}
    found = {"shared": (buffer.actions.nbytes + buffer.masks.nbytes) / transitions}
    for name, tensor in buffer.storage._storage.flatten_keys(".").items():
        part = names.get(name, "rest")
        found[part] = found.get(part, 0) + tensor.untyped_storage().nbytes() / transitions
    return found


def plain_update(count: int, features: int, rows: int, device: str) -> Callable[[], None]:
    """One critic, forward and backward on all actions, as Pearl does it."""
    net = network(STATE + features, 1).to(device)
    states, actions = _inputs(count, features, rows, device)
    return _update(net, lambda: q_values(net, states, actions.expand(rows, -1, -1)))


def factored_update(count: int, features: int, rows: int, device: str, **options) -> Callable[[], None]:
    """The same with a FactoredQ of the same layers; `options` are its own."""
    net = FactoredQ(STATE, features, HIDDEN, **options).to(device)
    states, actions = _inputs(count, features, rows, device)
    return _update(net, lambda: net(states, actions))


def plain_values(count: int, features: int, rows: int, device: str) -> Callable[[], torch.Tensor]:
    """The values of all actions, without gradients, as Pearl finds them."""
    net = network(STATE + features, 1).to(device)
    states, actions = _inputs(count, features, rows, device)
    return torch.no_grad()(lambda: q_values(net, states, actions.expand(rows, -1, -1)))


def factored_values(count: int, features: int, rows: int, device: str) -> Callable[[], torch.Tensor]:
    """The same by a FactoredQ of the same layers."""
    net = FactoredQ(STATE, features, HIDDEN).to(device)
    states, actions = _inputs(count, features, rows, device)
    return torch.no_grad()(lambda: net(states, actions))


def matrix_products(count: int, rows: int, device: str, *, backward: bool) -> Callable[[], None]:
    """Nothing but the matrix products that no way to those values can do without: those of the layers after the first,
    for each pair, and in an update those of the backward pass, by the layers' inputs and by their weights."""
    pairs = count * rows
    at_once = min(pairs, PAIRS_AT_ONCE[torch.device(device).type])
    layers = [
        (torch.rand(at_once, before, device=device), torch.rand(at_once, after, device=device), weight)
        for before, after in itertools.pairwise((*HIDDEN, 1))
        for weight in [torch.rand(before, after, device=device)]
    ]

    def multiply():
        for done in range(0, pairs, at_once):
            for inputs, gradients, weight in layers:
                inputs, gradients = (each[: pairs - done] for each in (inputs, gradients))
                inputs @ weight
                if backward:
                    gradients @ weight.T
                    inputs.T @ gradients

    return multiply


def precisions(device: str) -> list[str]:
    """Of matrix products, as torch.set_float32_matmul_precision has them, that make a difference there."""
    return ["highest", "high"] if device.startswith("cuda") else ["highest"]


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Matrix products of float32 in that precision: "high" is TF32 on a GPU."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def free_bytes(device: str) -> int:
    """That a computation may take on that device now."""
    if not device.startswith("cuda"):
        return psutil.virtual_memory().available
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(torch.device(device))[0]


def planned_peak(make: Callable[..., Callable[[], None]], *sizes, **options) -> int:
    """Peak bytes of the tensors of an update, found on the meta device, where nothing is computed or held. Operators'
    own temporaries are not in it."""
    update = make(*sizes, "meta", **options)
    update()  # leaves gradients, as every update but the first finds them
    with StorageCount(None, torch.device("meta")) as account:
        update()
    return account.peak_bytes


def largest_plain(features: int, rows: int, limit_bytes: int) -> int:
    """The most actions whose plain update fits into so many bytes, by plans."""
    fits, too_many = 1, 2**20
    while too_many - fits > 1:
        count = (fits + too_many) // 2
        if planned_peak(plain_update, count, features, rows) <= limit_bytes:
            fits = count
        else:
            too_many = count
    return fits


def _inputs(count, features, rows, device):
    return torch.rand(rows, STATE, device=device), torch.rand(count, features, device=device)


def _update(net, values):
    def update():
        net.zero_grad()
        values().square().mean().backward()

    return update
