"""One training, in the process that was chosen for it: seeded, held to its threads, and its end put into a Reply."""

import gc
import random
import time
import traceback
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import cloudpickle

from .threads import limit_threads


@dataclass(frozen=True)
class Reply:
    """What a training came to: its value, pickled, or why there is none, and the seconds it took."""

    value: bytes | None
    error: str | None
    seconds: float


def answer(payload: bytes, seed: int, threads: int) -> Reply:
    """Run a pickled (fn, config) here."""
    start = time.monotonic()
    try:
        fn, config = cloudpickle.loads(payload)
        seed_everything(seed)
        limit_threads(threads)
        _set_imports_aside()
        start = time.monotonic()
        value = fn(**config)
        reply = Reply(cloudpickle.dumps(value), None, time.monotonic() - start)
        del value
        _set_imports_aside(collect=True)
        return reply
    except BaseException:  # SystemExit as well: a training that calls sys.exit() ends itself and nothing else
        return Reply(None, traceback.format_exc(), time.monotonic() - start)


@cache  # once before the first training and once after it, which may import more
def _set_imports_aside(collect: bool = False) -> None:
    """Keep what is there out of further garbage collections: loky asks for one every second, and with torch loaded each
    would take as long as a short training."""
    if collect:
        gc.collect()
    gc.freeze()


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch, as far as they are installed."""
    random.seed(seed)
    if find_spec("numpy"):
        import numpy as np

        np.random.seed(seed)
    if find_spec("torch"):  # imported even if `fn` has not yet: it would draw from where the last training stopped
        import torch

        torch.manual_seed(seed)
