"""The calculator of GPU memory interpolates between plans, and its page is self-contained."""

import json
import re

import numpy as np
import pytest
import torch

from rlrepro.course.calculator import calculator, tables

from .fit_networks import make_plan

ROWS = (16, 256, 2048)


@pytest.fixture(scope="module")
def planned():
    return make_plan("mlp", rollout=2048)


@pytest.fixture(scope="module")
def plans(planned):
    requests = []

    def make(name, dtype):
        requests.append((name, dtype))
        return planned

    plans = tables(make, ["mlp"], ROWS)
    assert requests == [("mlp", torch.float32), ("mlp", torch.float16)]
    return plans


@pytest.mark.slow
@pytest.mark.parametrize("rows", [64, 512, 1024])
def test_between_its_plans_it_never_underestimates(planned, plans, rows):
    for stage, points in plans["mlp"]["float32"].items():
        needed = planned.at(batch_size=rows).needed[stage]
        assert needed * (1 - 1e-4) <= np.interp(rows, *zip(*points, strict=True)) <= 1.1 * needed


def test_its_page_has_the_plans_and_needs_no_kernel(plans):
    page = calculator(plans, gib=3, rows=128).data
    assert json.loads(re.search("const plans = ({.*?}), root", page)[1]) == plans
    assert 'value="3"' in page and "128].map(Math.log2)" in page and "__" not in page and "src=" not in page
    assert calculator(plans).data != page  # two calculators on a page have different names
