"""What is measured of logp_old. Each function runs under a release:

Release("tianshou==1.0.0").run(peak, rows=1024, max_batchsize=64)
"""

import bisect
import traceback
from pathlib import Path

import numpy as np
import torch

from rlrepro.cases.common.tianshou_ppo import policy_of, ppo, preprocess, visual_networks, visual_ppo, visual_rollout
from rlrepro.cases.common.tianshou_vectors import train_cartpole, vector_ppo, vector_rollout
from rlrepro.lab import MemoryHistory, VirtualCard, peak_memory
from rlrepro.lab.timing import synchronizer
from rlrepro.lab.virtual_card import as_out_of_memory

HISTORY_POINTS = 800
ARTICLE_SNIPPET = """\
logp_old = []
with torch.no_grad():
    for minibatch in batch.split(self._batch, shuffle=False, merge_last=True):
        logp_old.append(self(minibatch).dist.log_prob(minibatch.act))
batch.logp_old = torch.cat(logp_old, dim=0).flatten()
"""


def prepare(rows: int) -> None:
    """Import what the measurements need and collect their rollout, so that several releases can do so side by side."""
    visual_rollout(rows)
    preprocess(visual_ppo("nature", 64), *visual_rollout(64))


def peak(rows: int, max_batchsize: int, network: str = "nature", device: str = "cpu") -> dict:
    """Peak and held bytes of preprocessing a rollout of `rows` rows, and the host bytes of the batch it reads."""
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    peak_memory(lambda: preprocess(algorithm, *visual_rollout(64)), device=device, warmup=0)  # a short warm-up
    found = peak_memory(lambda: preprocess(algorithm, *rollout), device=device, warmup=0)
    batch = rollout[0]
    return {
        "peak_bytes": found.peak_bytes,
        "held_bytes": found.held_bytes,
        "host_bytes": batch.obs.nbytes + batch.obs_next.nbytes,
    }


def fits(
    rows: int, gib: float, max_batchsize: int, network: str = "nature", device: str = "cpu", cured: bool = False
) -> dict:
    """Whether preprocessing such a rollout fits on a card: {"fits", "peak_bytes", "error", "trace"}.

    The error is as it came, the trace the lines of library code it passed through. `cured` uses our ChunkedPPOPolicy.
    """
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    if cured:
        from rlrepro.fixes import ChunkedPPOPolicy

        algorithm = ppo(*visual_networks(network, device=device), max_batchsize=max_batchsize, cls=ChunkedPPOPolicy)
    error, trace = None, []
    with VirtualCard(gib, device=device) as card:
        try:
            with as_out_of_memory():
                preprocess(algorithm, *rollout)
        except torch.OutOfMemoryError as raised:
            error = str(raised)
            frames = traceback.extract_tb(raised.__traceback__)
            trace = [f"{Path(frame.filename).name}:{frame.lineno}  {frame.line}" for frame in frames if _library(frame)]
    return {"fits": error is None, "peak_bytes": card.peak_bytes, "error": error, "trace": trace}


def history(rows: int, gib: float, max_batchsize: int, network: str = "nature", device: str = "cpu") -> dict:
    """What is live on such a card while that rollout is preprocessed, until it is done or out of memory: "live",
    bytes for each line of tianshou's that made them, at up to HISTORY_POINTS of "events" allocations and frees, from
    the first to the last; "error" as in `fits`."""
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    error, seen = None, MemoryHistory(["tianshou"], device=device)
    try:
        with VirtualCard(gib, device=device), as_out_of_memory(), seen:  # ends where the error was raised
            preprocess(algorithm, *rollout)
    except torch.OutOfMemoryError as raised:
        error = str(raised)
    events = len(seen.events)
    at = np.linspace(0, events - 1, min(events, HISTORY_POINTS)).astype(int)
    return {"live": {line: live[at] for line, live in seen.live_by_line().items()}, "events": events, "error": error}


def _library(frame) -> bool:
    return any(f"/{name}/" in frame.filename for name in ("tianshou", "cases")) and frame.name != "fits"


def largest_rollout(
    gib: float, low: int, high: int, step: int, max_batchsize: int, device: str = "cpu", network: str = "nature"
) -> int | None:
    """The most rows, in steps of `step`, whose preprocessing fits on the card, by bisection between `low` and `high`.

    None where even `high` fits. Raises ValueError where not even `low` does.
    """
    visual_rollout(high)
    candidates = range(low, high + 1, step)
    refused = bisect.bisect_left(
        candidates, True, key=lambda rows: not fits(rows, gib, max_batchsize, network, device)["fits"]
    )
    if refused == 0:
        raise ValueError(f"not even {low} rows fit on {gib} GiB; start lower")
    return None if refused == len(candidates) else candidates[refused - 1]


def preprocess_once(rows: int, max_batchsize: int, network: str = "nature", device: str = "cpu") -> None:
    """Preprocess and wait for the device; for timing."""
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    preprocess(algorithm, *rollout)
    synchronizer(device)()


def logp_old(rows: int, max_batchsize: int, precision: str, device: str = "cpu"):
    """The log-probabilities that preprocessing computes, as a float64 array (rows,). `precision` is one of
    `precisions(device)`."""
    dtype = "bfloat16" if precision == "bfloat16" else "float32"
    algorithm, rollout = _workload(rows, max_batchsize, "nature", device, actor_dtype=dtype)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        return preprocess(algorithm, *rollout).logp_old.double().cpu().numpy()
    finally:
        torch.backends.cudnn.allow_tf32 = before


def precisions(device: str) -> list[str]:
    """In which results are compared there; "tf32" is what torch itself takes for convolutions of float32 on a GPU."""
    return ["float32", *(["tf32"] if device.startswith("cuda") else []), "bfloat16"]


def snippet_policy(lines: str = ARTICLE_SNIPPET):
    """A PPOPolicy of tianshou before 2 whose logp_old is computed by these lines."""
    from tianshou.data import to_torch_as
    from tianshou.policy import PPOPolicy

    class SnippetPPOPolicy(PPOPolicy):
        def process_fn(self, batch, buffer, indices):
            batch = self._compute_returns(batch, buffer, indices)
            batch.act = to_torch_as(batch.act, batch.v_s)
            exec(lines, {"torch": torch}, {"self": self, "batch": batch})
            return batch

    return SnippetPPOPolicy


def run_snippet(rows: int = 256, max_batchsize: int = 64) -> str | None:
    """Run the article's lines as printed, in a PPOPolicy; the error they raise, or None."""
    actor, critic = visual_networks("nature")
    algorithm = ppo(actor, critic, max_batchsize=max_batchsize, cls=snippet_policy())
    try:
        preprocess(algorithm, *visual_rollout(rows))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def train(chunked: bool, updates: int, max_batchsize: int, seed: int = 0, device: str = "cpu") -> dict:
    """A whole seeded training on CartPole-v1 with tianshou 1.0.0, as it is or with logp_old in chunks; the article's
    lines do it, with the attribute's right name. See `train_cartpole` for what comes back."""
    lines = ARTICLE_SNIPPET.replace("self._batch", "self.max_batchsize")
    cls = snippet_policy(lines) if chunked else None
    return train_cartpole(cls, updates=updates, max_batchsize=max_batchsize, seed=seed, device=device)


def chunk_sizes(rows: int, size: int) -> list[int]:
    """The sizes of the chunks that the release cuts a batch of `rows` rows into."""
    from tianshou.data import Batch

    batch = Batch(row=np.arange(rows))
    return [len(chunk) for chunk in batch.split(size, shuffle=False, merge_last=True)]


def first_ratio(distribution: str, actions: int = 1, cured: bool = False, rows: int = 256, minibatch: int = 64) -> dict:
    """Shapes of logp_old and of the first minibatch's probability ratio, and how far that ratio is from 1.

    `distribution` is one of `DISTRIBUTIONS`. The policy has not changed since the rollout, so the ratio must be 1 in
    each row. `error` is what came instead.
    """
    cls = None
    if cured:
        from rlrepro.fixes import ChunkedPPO as cls
    algorithm = vector_ppo(distribution, actions, max_batchsize=minibatch, cls=cls)
    batch = preprocess(algorithm, *vector_rollout(rows, None if distribution == "categorical" else actions))
    found = {"logp_shape": list(batch.logp_old.shape), "ratio_shape": None, "error": None, "off_by": None}
    with torch.no_grad():
        part = next(batch.split(minibatch, shuffle=False))
        try:  # the line of the release's own update
            ratio = (policy_of(algorithm)(part).dist.log_prob(part.act) - part.logp_old).exp().float()
        except RuntimeError as error:
            return found | {"error": str(error)}
    return found | {"ratio_shape": list(ratio.shape), "off_by": float((ratio - 1).abs().max())}


def _workload(rows, max_batchsize, network, device, actor_dtype="float32"):
    algorithm = visual_ppo(network, max_batchsize, device=device, actor_dtype=actor_dtype)
    return algorithm, visual_rollout(rows)
