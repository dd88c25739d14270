"""Lab of chapter 5: `my_search(net, states, actions)`, the best action in each state."""

import torch

from rlrepro.cases.large_actions import FEATURES, STATE
from rlrepro.cases.large_actions.pearl_reimplementation import network, q_values
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.fixes import FactoredQ
from rlrepro.lab import compare, peak_memory

STATES, ACTIONS = 4, 5_000
TIMES = 1.5  # of our time; an answer beyond it computes something needlessly for each pair
STILL = "How many pairs of a state and an action are in memory at once, and which numbers does each of them have?"


def trial(answer) -> Trial:
    torch.manual_seed(0)
    net = network(STATE + FEATURES, 1)
    states, actions = torch.rand(STATES, STATE), torch.rand(ACTIONS, FEATURES)
    factored = FactoredQ.from_sequential(torch.nn.Sequential(*_flat(net)), state_dim=STATE)
    searches = {
        "released": lambda: q_values(net, states, actions.expand(STATES, -1, -1)).max(dim=1),
        "yours": lambda: answer(net, states, actions),
        "ours": lambda: factored.best(states, actions),
    }
    with torch.no_grad():
        (expected, _), (values, indices) = searches["released"](), searches["yours"]()
        actual = q_values(net, states, actions[indices].unsqueeze(1)).squeeze(1)  # what those actions are worth
        if values.shape != expected.shape or not torch.allclose(values, expected, atol=1e-4):
            raise WrongResult("The values are not those of the best actions.")
        if not torch.allclose(actual, expected, atol=1e-4):
            raise WrongResult("The indices are not those of the best actions in the table. Where do chunks begin?")
        costs = {variant: [peak_memory(search, device="cpu").peak_bytes] for variant, search in searches.items()}
        times = compare(searches["yours"], searches["ours"], repeats=5, device="cpu").ratio
    note = f"It takes {times:.2g} times as long as ours: what does the first layer compute anew for each pair?"
    return Trial(
        costs, "B", f"peak of the best of {ACTIONS:,} actions in {STATES} states", 3, (note,) * (times > TIMES)
    )


def _flat(net):
    for layer in net:
        yield from layer if isinstance(layer, torch.nn.Sequential) else (layer,)
