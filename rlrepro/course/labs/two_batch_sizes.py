"""Lab of chapter 1: `my_fix(collector)`, which changes a tianshou Collector before it collects."""

import torch

from rlrepro.cases.two_batch_sizes import NEWEST
from rlrepro.cases.two_batch_sizes.workloads import collecting
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.lab import Release

ENVS, BEFORE = 64, "1.1.0"  # environments; the last release that collected without gradients
STILL = "Does the actor still record what a backward pass would need?"


def trial(answer) -> Trial:
    with Release(f"tianshou=={NEWEST}") as newest, Release(f"tianshou=={BEFORE}") as before:
        runs = {
            "released": newest.run(seeded),
            "upstream": before.run(seeded),
            "yours": newest.run(seeded, fix=answer),
            "ours": newest.run(seeded, no_grad=True),
        }
    if runs["yours"]["actions"] != runs["released"]["actions"]:
        raise WrongResult("With the same seed, other actions were taken.")
    drawbacks = []
    if not runs["yours"]["afterwards"]:
        drawbacks.append("Gradients are still off after collecting, so the update can't learn.")
    costs = {variant: [run["peak_bytes"]] for variant, run in runs.items()}
    return Trial(costs, "B", f"peak of a step in {ENVS} environments, weights included", 1.05, tuple(drawbacks))


def seeded(**options) -> dict:
    torch.manual_seed(0)
    return collecting(ENVS, **options)
