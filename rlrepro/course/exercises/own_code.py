"""Exercises of chapter 7: somebody's own code."""

import tempfile
from pathlib import Path

import torch
from torch import nn

from rlrepro.course.exercises.core import Hint, exercise
from rlrepro.doctor import examine, watch

ROWS, SIZE = 640, 64


@exercise("7.1")
def cured(my_update, records):
    """A text with `update(network, rollout, size, optimizer)` in which no pass has more than `size` rows."""
    update = _function(my_update, "update")
    network, rollout = nn.Linear(3, 1), torch.randn(ROWS, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with torch.no_grad():
        expected, before = network(rollout), network.weight.clone()
    with watch(show=False) as seen:
        old = update(network, rollout, SIZE, optimizer)
    if not isinstance(old, torch.Tensor) or old.shape != expected.shape:
        raise Hint(f"`update` must return what the network gives for all rows, a tensor {tuple(expected.shape)}.")
    if not torch.allclose(old, expected, atol=1e-6):
        raise Hint("The numbers differ. All of `old` has to be computed before the first gradient step.")
    if old.requires_grad:
        raise Hint("`old` carries gradients now: they are kept for a backward pass that never comes.")
    if not seen.notes.passes:
        raise Hint("No layer of the network saw any rows: call the network itself.")
    largest = max(each.rows for each in seen.notes.passes.values())
    if largest > SIZE:
        raise Hint(f"A pass had {largest} rows, with a size of {SIZE}.")
    if torch.equal(network.weight, before):
        raise Hint("The network has learned nothing: each gradient step has to stay.")
    if found := _codes(my_update):
        raise Hint(f"The doctor still finds {', '.join(found)}.")


@exercise("7.2")
def troubled(my_sweep, records):
    """A text in which the doctor finds PT001 and nothing else."""
    found = _codes(my_sweep)
    if "PT001" not in found:
        raise Hint(f"The doctor finds {', '.join(found) or 'nothing'}. Who starts several trainings, and with what?")
    if found != ["PT001"]:
        raise Hint(f"It finds {', '.join(found)}: something else is wrong as well.")


@exercise("7.3")
def blind_spot(my_blind_spot, records):
    """A text with `prepare(network, rollout)` in which reading finds nothing, and watching a pass of all rows."""
    if found := _codes(my_blind_spot):
        raise Hint(f"Reading finds {', '.join(found)}. What does the rule look for in the same function?")
    prepare = _function(my_blind_spot, "prepare")
    with watch(show=False) as seen:
        prepare(nn.Linear(3, 1), torch.randn(ROWS, 3))
    whole = seen.notes.passes.get("without gradients")
    if whole is None or whole.rows < ROWS:
        raise Hint(f"The largest pass without gradients had {whole.rows if whole else 0} of {ROWS} rows.")


def _codes(text: str) -> list[str]:
    """The codes of what reading a text finds."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "answer.py").write_text(text)
        found = examine([folder])
    if found.left_out:
        raise Hint(f"The text can't be parsed: {found.left_out[0].why}.")
    return sorted({each.code for each in found.findings})


def _function(text: str, name: str):
    names = {}
    exec(compile(text, "<your answer>", "exec"), names)
    if not callable(names.get(name)):
        raise Hint(f"The text defines no function `{name}`.")
    return names[name]
