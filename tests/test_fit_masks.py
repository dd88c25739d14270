"""Masks that a plan reads as arrays or lists select all rows, as a bool that is read alone is true."""

import re

import numpy as np
import pytest
import torch
from torch import nn

from rlrepro.fit import CannotPlan, plan_update, reads
from rlrepro.lab import peak_memory

ROWS = 1024
SELECTIONS = {
    "nonzero": lambda mask: torch.as_tensor(np.nonzero(mask.numpy())[0]),
    "list": lambda mask: [row for row, is_kept in enumerate(mask.tolist()) if is_kept],
    "part": lambda mask: torch.as_tensor(np.flatnonzero(mask.numpy()[: ROWS // 2])),
    "inverse": lambda mask: torch.as_tensor(np.flatnonzero(~(~mask).numpy() | mask.numpy())),
}


def make():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))


def learn(net, select):
    rows = torch.randn(ROWS, 64)
    net(rows[select(rows[:, 0] < 100)]).pow(2).mean().backward()
    net.zero_grad(set_to_none=True)


@pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS)
def test_the_selected_rows_are_planned(select):
    net = make()
    learn(net, select)
    measured = peak_memory(lambda: learn(net, select), device="cpu").peak_bytes
    planned = plan_update(make, lambda net: learn(net, select), device="cpu").stages["update"]
    planned -= sum(parameter.nbytes for parameter in net.parameters())  # which were there before
    assert measured <= planned <= 1.05 * measured


def test_reads_chooses_that_none_is_selected():
    def chosen(net, kept):
        with reads(kept == 2):
            learn(net, SELECTIONS["nonzero"])

    small, large = (plan_update(make, chosen, device="cpu", kept=kept).stages["update"] for kept in (1, 2))
    assert small < large / 2


def test_a_guard_that_reads_an_array_finds_no_nan():
    def guarded(net):
        rows = torch.randn(ROWS, 64)
        if torch.isnan(rows).any(1).numpy().any() or any(torch.isinf(rows.sum(1)).tolist()):
            raise AssertionError
        net(rows)

    plan_update(make, guarded, device="cpu")


def test_sizes_that_are_read_as_a_list_are_noted():
    def slices(net):
        for length in torch.full((4,), ROWS).tolist():  # the line
            net(torch.randn(ROWS, 64)[:length])

    def splits(net):
        torch.randn(ROWS, 64).split(torch.full((4,), ROWS // 4).tolist())  # the line

    message = r"whole numbers that tolist\(\) reads are taken to be 0.*# the line"
    (note,) = plan_update(make, slices, device="cpu").notes
    assert re.match(message, note)
    with pytest.raises(CannotPlan, match=f"note: {message}"):
        plan_update(make, splits, device="cpu")
