"""Lab of chapter 2: `my_logp_old(policy, batch)`, in tianshou 1.0.0."""

import numpy as np

from rlrepro.cases.common.tianshou_ppo import ppo, preprocess, visual_networks, visual_rollout
from rlrepro.cases.logp_old import BUGGY, FIXED
from rlrepro.course.labs.core import Trial, WrongResult
from rlrepro.lab import Release, peak_memory

ROWS, SIZE = 256, 32  # transitions; max_batchsize
REMAINDER = 2 * SIZE - 1
STILL = "What is in memory at once: how many transitions, and is it only what their result needs?"


def trial(answer) -> Trial:
    with Release(f"tianshou=={BUGGY}") as buggy, Release(f"tianshou=={FIXED}") as fixed:
        runs = {"released": buggy.run(preprocessed), "upstream": fixed.run(preprocessed)}
        runs |= {variant: buggy.run(preprocessed, variant, answer) for variant in ("yours", "ours")}
        chunks, with_graph = buggy.run(chunks_seen, answer)
    expected, actual = runs["released"]["logp"], runs["yours"]["logp"]
    if actual.shape != expected.shape:
        raise WrongResult(f"Expected one number for each transition, {expected.shape}, found {actual.shape}.")
    if not np.allclose(actual, expected, atol=1e-5):
        raise WrongResult(
            f"logp_old differs from the unfixed release's by up to {np.abs(actual - expected).max():.2g}."
        )
    drawbacks = []
    if max(chunks) > SIZE:
        drawbacks.append(
            f"{REMAINDER} transitions in chunks of at most {SIZE} became {chunks}: the remainder was joined."
        )
    if with_graph:
        drawbacks.append("logp_old carries a graph, so the activations of every chunk stay in memory.")
    costs = {variant: [run["peak"]] for variant, run in runs.items()}
    return Trial(costs, "B", f"peak of preprocessing {ROWS} transitions, max_batchsize={SIZE}", 1.2, tuple(drawbacks))


def preprocessed(variant: str = "released", answer=None, rows: int = ROWS) -> dict:
    """Peak bytes of preprocessing a rollout, and its logp_old."""
    policy, warm_up, rollout = _policy(variant, answer), visual_rollout(SIZE), visual_rollout(rows)
    preprocess(policy, *warm_up)
    peak = peak_memory(lambda: preprocess(policy, *rollout), device="cpu", warmup=0).peak_bytes
    return {"peak": peak, "logp": preprocess(policy, *rollout).logp_old.detach().numpy()}


def chunks_seen(answer) -> tuple[list[int], bool]:
    """How many transitions the actor was given at a time, and whether the result carries a graph."""
    policy, sizes = _policy("yours", answer), []
    policy.actor.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    return sizes, preprocess(policy, *visual_rollout(REMAINDER)).logp_old.requires_grad


def _policy(variant, answer):
    from tianshou.data import to_torch_as
    from tianshou.policy import PPOPolicy

    class Yours(PPOPolicy):
        def process_fn(self, batch, buffer, indices):
            batch = self._compute_returns(batch, buffer, indices)
            batch.act = to_torch_as(batch.act, batch.v_s)
            batch.logp_old = answer(self, batch)
            return batch

    cls = Yours if variant == "yours" else None
    if variant == "ours":
        from rlrepro.fixes import ChunkedPPOPolicy as cls
    return ppo(*visual_networks("nature"), max_batchsize=SIZE, cls=cls, optimizer=None)
