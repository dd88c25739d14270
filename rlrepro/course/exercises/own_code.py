"""Exercises of chapter 7: your own code."""

import tempfile
from pathlib import Path

import torch
from torch import nn

from rlrepro.course.exercises.core import Hint, exercise
from rlrepro.doctor import examine, watch

SAMPLES, SIZE = 640, 64


@exercise("7.1")
def fix_whole_rollout(my_update, records):
    """Source of `update(network, rollout, size, optimizer)` in which no forward pass has more than `size` samples."""
    update = _function(my_update, "update")
    network, rollout = nn.Linear(3, 1), torch.randn(SAMPLES, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with torch.no_grad():
        expected, before = network(rollout), network.weight.clone()
    with watch(show=False) as report:
        old = update(network, rollout, SIZE, optimizer)
    if not isinstance(old, torch.Tensor) or old.shape != expected.shape:
        raise Hint(f"`update` must return the network's output for all samples, a tensor {tuple(expected.shape)}.")
    if not torch.allclose(old, expected, atol=1e-6):
        raise Hint("The numbers differ. All of `old` has to be computed before the first gradient step.")
    if old.requires_grad:
        raise Hint("`old` now carries gradients, which are kept for a backward pass that never comes.")
    if not report.notes.passes:
        raise Hint("No layer of the network saw any samples: call the network itself.")
    largest = max(largest_pass.rows for largest_pass in report.notes.passes.values())
    if largest > SIZE:
        raise Hint(f"A forward pass had {largest} samples, with a size of {SIZE}.")
    if torch.equal(network.weight, before):
        raise Hint("The network has not learned anything: keep the gradient steps.")
    if codes := _codes(my_update):
        raise Hint(f"The doctor still finds {', '.join(codes)}.")


@exercise("7.2")
def has_pt001(my_sweep, records):
    """Source in which the doctor finds PT001 and nothing else."""
    codes = _codes(my_sweep)
    if "PT001" not in codes:
        raise Hint(f"The doctor finds {', '.join(codes) or 'nothing'}. What starts several training runs, and how?")
    if codes != ["PT001"]:
        raise Hint(f"It finds {', '.join(codes)}: something else is wrong as well.")


@exercise("7.3")
def blind_spot(my_blind_spot, records):
    """Source of `prepare(network, rollout)` in which reading finds nothing, but a run shows a pass of all samples."""
    if codes := _codes(my_blind_spot):
        raise Hint(f"Reading finds {', '.join(codes)}. What does the rule look for in the same function?")
    prepare = _function(my_blind_spot, "prepare")
    with watch(show=False) as report:
        prepare(nn.Linear(3, 1), torch.randn(SAMPLES, 3))
    largest_pass = report.notes.passes.get("without gradients")
    if largest_pass is None or largest_pass.rows < SAMPLES:
        raise Hint(
            f"The largest forward pass without gradients had {largest_pass.rows if largest_pass else 0} of {SAMPLES} "
            "samples."
        )


def _codes(source: str) -> list[str]:
    """The codes of what the doctor finds in the source."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "answer.py").write_text(source)
        examination = examine([folder])
    if examination.left_out:
        raise Hint(f"The source can't be parsed: {examination.left_out[0].why}.")
    return sorted({finding.code for finding in examination.findings})


def _function(source: str, name: str):
    namespace = {}
    exec(compile(source, "<your answer>", "exec"), namespace)
    if not callable(namespace.get(name)):
        raise Hint(f"The source does not define a function `{name}`.")
    return namespace[name]
