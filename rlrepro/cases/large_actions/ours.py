"""What is run on the cures: the same critic's update, plain and factored, and what is stored."""

from collections.abc import Callable

import torch
from tensordict import TensorDict

from rlrepro.cases.large_actions import HIDDEN, STATE
from rlrepro.cases.large_actions.model import network, q_values
from rlrepro.fixes import FactoredQ, SharedActionBuffer
from rlrepro.lab.storage_count import StorageCount


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
