"""Tracebacks of the real releases, raised during the test: the matching problem comes first."""

import pytest

from rlrepro.doctor.triage import triage
from rlrepro.lab import Release

pytestmark = pytest.mark.slow
SMALL = 0.02  # GiB


def preprocess_on_a_small_card(max_batchsize):
    from rlrepro.cases.common.tianshou_ppo import preprocess, visual_ppo, visual_rollout
    from rlrepro.lab import VirtualCard

    algorithm, rollout = visual_ppo("nature", max_batchsize), visual_rollout(256)
    with VirtualCard(SMALL, device="cpu"):
        preprocess(algorithm, *rollout)


def collect_on_a_small_card():
    from rlrepro.cases.common.tianshou_ppo import ppo, visual_networks
    from rlrepro.cases.two_batch_sizes.workloads import _collect
    from rlrepro.lab import VirtualCard

    algorithm = ppo(*visual_networks("nature"))
    with VirtualCard(SMALL / 4, device="cpu"):
        _collect(algorithm, 64, 64)


def value_pass_on_a_small_card():
    from rlrepro.cases.value_pass.workloads import ValuePass
    from rlrepro.lab import VirtualCard

    run = ValuePass("nature", 512, 64, "released")
    with VirtualCard(SMALL, device="cpu"):
        run()


@pytest.mark.parametrize(
    "requirement, problem, function, arguments",
    [
        ("tianshou==0.5.1", "logp-old", preprocess_on_a_small_card, (64,)),
        ("tianshou==1.0.0", "logp-old", preprocess_on_a_small_card, (64,)),
        ("tianshou==1.1.0", "batch-sizes", preprocess_on_a_small_card, (256,)),
        ("tianshou==2.0.1", "batch-sizes", preprocess_on_a_small_card, (256,)),
        ("tianshou==2.0.1", "collecting", collect_on_a_small_card, ()),
        ("tianshou==2.0.1", "value-pass", value_pass_on_a_small_card, ()),  # of the Ray that is installed beside it
    ],
)
def test_the_problem_of_a_real_traceback_comes_first(requirement, problem, function, arguments):
    if problem == "value-pass":
        pytest.importorskip("ray.rllib", reason="pip install 'rlrepro[rllib]'")
    with Release(requirement) as release, pytest.raises(RuntimeError) as raised:
        release.run(function, *arguments)
    text = f"{raised.value.__cause__}\n{type(raised.value).__name__}: {raised.value}"
    assert [match["id"] for match in triage(text)][:1] == [problem], text
