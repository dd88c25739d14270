"""The workloads of the chapter. Each function runs under a release:

Release("tianshou==1.0.0").run(peak, rows=1024, max_batchsize=64)

`rows` are transitions of a rollout.
"""

import bisect
import traceback
from pathlib import Path

import numpy as np
import torch

from rlrepro.cases.common.tianshou_ppo import (
    is_version_2,
    policy_of,
    ppo,
    preprocess,
    visual_networks,
    visual_ppo,
    visual_rollout,
)
from rlrepro.cases.common.tianshou_vectors import train_cartpole, vector_ppo, vector_rollout
from rlrepro.lab import MemoryHistory, VirtualCard, peak_memory
from rlrepro.lab.garbage_collector import freeze_imports
from rlrepro.lab.timing import synchronizer
from rlrepro.lab.virtual_card import as_out_of_memory

HISTORY_POINTS = 800
WARMUP_ROWS = 8
SHORT_ROWS, MINIBATCH = 256, 64  # where only values matter
ARTICLE_SNIPPET = """\
logp_old = []
with torch.no_grad():
    for minibatch in batch.split(self._batch, shuffle=False, merge_last=True):
        logp_old.append(self(minibatch).dist.log_prob(minibatch.act))
batch.logp_old = torch.cat(logp_old, dim=0).flatten()
"""


def prepare(rows: int) -> None:
    """Import what the measurements need and collect their rollout."""
    is_version_2()  # imports tianshou
    freeze_imports()
    visual_rollout(rows)
    preprocess(visual_ppo("nature", 64), *visual_rollout(WARMUP_ROWS))


def peak(rows: int, max_batchsize: int, network: str = "nature", device: str = "cpu") -> dict:
    """Peak bytes of preprocessing a rollout of `rows` transitions, and the host bytes of the batch that it reads."""
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    peak_memory(lambda: preprocess(algorithm, *visual_rollout(WARMUP_ROWS)), device=device, warmup=0)
    memory = peak_memory(lambda: preprocess(algorithm, *rollout), device=device, warmup=0)
    batch = rollout[0]
    return {"peak_bytes": memory.peak_bytes, "host_bytes": batch.obs.nbytes + batch.obs_next.nbytes}


def fits(
    rows: int, gib: float, max_batchsize: int, network: str = "nature", device: str = "cpu", chunked: bool = False
) -> dict:
    """Whether preprocessing a rollout of `rows` transitions fits on a virtual card: {"fits", "peak_bytes", "error",
    "trace"}.

    `error` is the message of the out-of-memory error or None; `trace` has the lines of library code in its traceback.
    `chunked` uses ChunkedPPOPolicy in place of the release's own class.
    """
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    if chunked:
        from rlrepro.fixes import ChunkedPPOPolicy

        networks = visual_networks(network, device=device)
        algorithm = ppo(*networks, max_batchsize=max_batchsize, cls=ChunkedPPOPolicy, optimizer=None)
    error, trace = None, []
    with VirtualCard(gib, device=device) as card:
        try:
            with as_out_of_memory():
                preprocess(algorithm, *rollout)
        except torch.OutOfMemoryError as oom:
            error = str(oom)
            frames = traceback.extract_tb(oom.__traceback__)
            trace = [f"{Path(frame.filename).name}:{frame.lineno}  {frame.line}" for frame in frames if _library(frame)]
    return {"fits": error is None, "peak_bytes": card.peak_bytes, "error": error, "trace": trace}


def history(rows: int, gib: float, max_batchsize: int, network: str = "nature", device: str = "cpu") -> dict:
    """What is live on a virtual card of `gib` GiB while a rollout is preprocessed, until that ends or runs out of
    memory.

    `live`: bytes by the line of tianshou that allocated them, at up to HISTORY_POINTS points spread over all
    allocations and frees; `events`: the number of allocations and frees; `error`: as in `fits`.
    """
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    error, memory_history = None, MemoryHistory(["tianshou"], device=device)
    try:
        with VirtualCard(gib, device=device), as_out_of_memory(), memory_history:  # recording ends at the error
            preprocess(algorithm, *rollout)
    except torch.OutOfMemoryError as oom:
        error = str(oom)
    events = len(memory_history.events)
    points = np.linspace(0, events - 1, min(events, HISTORY_POINTS)).astype(int)
    live = {line: live[points] for line, live in memory_history.live_by_line().items()}
    return {"live": live, "events": events, "error": error}


def _library(frame) -> bool:
    return any(f"/{name}/" in frame.filename for name in ("tianshou", "cases")) and frame.name != "fits"


def largest_rollout(
    gib: float, low: int, high: int, step: int, max_batchsize: int, device: str = "cpu", network: str = "nature"
) -> int | None:
    """The longest rollout whose preprocessing fits on the virtual card, in steps of `step`, by bisection from `low` to
    `high`.

    None if even `high` fits. Raises ValueError if `low` does not.
    """
    visual_rollout(high)
    candidates = range(low, high + 1, step)
    too_long = bisect.bisect_left(
        candidates, True, key=lambda rows: not fits(rows, gib, max_batchsize, network, device)["fits"]
    )
    if too_long == 0:
        raise ValueError(f"expected {low} transitions to fit on {gib} GiB, but they do not; start lower")
    return None if too_long == len(candidates) else candidates[too_long - 1]


def preprocess_once(rows: int, max_batchsize: int, network: str = "nature", device: str = "cpu") -> None:
    """Preprocess and wait for the device, for timing."""
    algorithm, rollout = _workload(rows, max_batchsize, network, device)
    preprocess(algorithm, *rollout)
    synchronizer(device)()


def logp_old(rows: int, max_batchsize: int, precision: str, device: str = "cpu"):
    """The log-probabilities that preprocessing computes, as a float64 array (rows,).

    `precision` is one of `precisions(device)`.
    """
    dtype = "bfloat16" if precision == "bfloat16" else "float32"
    algorithm, rollout = _workload(rows, max_batchsize, "nature", device, actor_dtype=dtype)
    previous = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        return preprocess(algorithm, *rollout).logp_old.double().cpu().numpy()
    finally:
        torch.backends.cudnn.allow_tf32 = previous


def precisions(device: str) -> list[str]:
    """The precisions in which results are compared; "tf32" is torch's default for float32 convolutions on a GPU."""
    return ["float32", *(["tf32"] if device.startswith("cuda") else []), "bfloat16"]


def snippet_policy(lines: str = ARTICLE_SNIPPET):
    """A PPOPolicy of tianshou before 2.0 that computes logp_old with these lines."""
    from tianshou.data import to_torch_as
    from tianshou.policy import PPOPolicy

    class SnippetPPOPolicy(PPOPolicy):
        def process_fn(self, batch, buffer, indices):
            batch = self._compute_returns(batch, buffer, indices)
            batch.act = to_torch_as(batch.act, batch.v_s)
            exec(lines, {"torch": torch}, {"self": self, "batch": batch})
            return batch

    return SnippetPPOPolicy


def run_snippet() -> str | None:
    """Run the article's lines as printed, in a PPOPolicy; returns the error that they raise, or None."""
    algorithm = ppo(*visual_networks("nature"), max_batchsize=MINIBATCH, cls=snippet_policy(), optimizer=None)
    try:
        preprocess(algorithm, *visual_rollout(SHORT_ROWS))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def train(
    chunked: bool, updates: int, max_batchsize: int, seed: int = 0, device: str = "cpu", nudged: bool = False
) -> dict:
    """A seeded training run on CartPole-v1 with tianshou 1.0.0, as released or with logp_old in chunks.

    Chunks are computed by the article's lines with the attribute's correct name. Returns what `train_cartpole` does.
    """
    lines = ARTICLE_SNIPPET.replace("self._batch", "self.max_batchsize")
    cls = snippet_policy(lines) if chunked else None
    return train_cartpole(cls, updates=updates, max_batchsize=max_batchsize, seed=seed, device=device, nudged=nudged)


def chunk_sizes(rows: int, size: int) -> list[int]:
    """The sizes of the chunks into which the release splits a batch of `rows` transitions."""
    from tianshou.data import Batch

    batch = Batch(row=np.arange(rows))
    return [len(chunk) for chunk in batch.split(size, shuffle=False, merge_last=True)]


def first_ratio(distribution: str, actions: int = 1, chunked: bool = False) -> dict:
    """The shape of the first minibatch's probability ratio, and how far it is from 1: {"shape", "off_by", "error"}.

    `distribution` is a key of `tianshou_vectors.DISTRIBUTIONS`. The policy has not changed since the rollout, so the
    ratio must be 1 for each transition. `error` is what the release raises instead. `chunked` uses ChunkedPPO.
    """
    cls = None
    if chunked:
        from rlrepro.fixes import ChunkedPPO as cls
    algorithm = vector_ppo(distribution, actions, max_batchsize=MINIBATCH, cls=cls)
    batch = preprocess(algorithm, *vector_rollout(SHORT_ROWS, None if distribution == "categorical" else actions))
    with torch.no_grad():
        first = next(batch.split(MINIBATCH, shuffle=False))
        try:  # the line of the release's own update
            ratio = (policy_of(algorithm)(first).dist.log_prob(first.act) - first.logp_old).exp().float()
        except RuntimeError as error:
            return {"shape": None, "off_by": None, "error": str(error)}
    return {"shape": list(ratio.shape), "off_by": float((ratio - 1).abs().max()), "error": None}


def _workload(rows, max_batchsize, network, device, actor_dtype="float32"):
    algorithm = visual_ppo(network, max_batchsize, device=device, actor_dtype=actor_dtype)
    return algorithm, visual_rollout(rows)


def farthest(weights, reference) -> list[float]:
    """The largest distance of a weight from its reference after each update; both are (updates + 1, weights)."""
    return np.abs(weights - reference).max(axis=1).tolist()
