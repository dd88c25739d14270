"""Lab of chapter 10: `my_values(compute_values, batch, size)`, as in exercise 10.2, in RLlib's own learner."""

from importlib import metadata

import numpy as np

from rlrepro.cases.value_pass.workloads import BATCH_COLUMNS, MODULE, ValuePass, missing
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.lab import Release, peak_memory

ROWS, SIZE = 512, 16
INSTALL = "this lab needs RLlib: pip install 'rlrepro[course,rllib]'"
STILL = "How many timesteps does the value network get at once, and what stays of a chunk when the next one begins?"


def trial(answer) -> Trial:
    try:
        version = metadata.version("ray")
    except metadata.PackageNotFoundError as error:
        raise ImportError(f"{INSTALL} (Ray is missing)") from error
    with Release(f"ray=={version}") as rllib:
        if missing_package := rllib.run(missing):
            raise ImportError(f"{INSTALL} ({missing_package})")
        runs = {variant: rllib.run(value_pass, variant, answer) for variant in ("released", "yours", "ours")}
    for name in BATCH_COLUMNS:
        expected, actual = (runs[variant]["columns"][name] for variant in ("released", "yours"))
        if actual.shape != expected.shape or not np.allclose(actual, expected, atol=1e-4):
            raise WrongResult(f"{name} of the train batch differ from those of the unfixed release.")
    costs = {variant: [run["peak"]] for variant, run in runs.items()}
    return Trial(costs, "B", f"peak of the value pass, {ROWS} timesteps, minibatch_size={SIZE}", 1.5)


def value_pass(variant: str, answer) -> dict:
    """Peak bytes of the connector, and the columns that it adds to the train batch."""
    run = ValuePass("nature", ROWS, SIZE, "chunked" if variant == "ours" else "released")
    if variant == "yours":
        module = run.learner.module[MODULE].unwrapped()
        compute_values = module.compute_values
        module.compute_values = lambda batch, embeddings=None: answer(compute_values, batch, SIZE)
    peak, result = peak_memory(run, device="cpu").peak_bytes, run()[MODULE]
    return {"peak": peak, "columns": {name: result[name].cpu().numpy() for name in BATCH_COLUMNS}}
