"""Restores what a planned script sets for its whole process."""

import os
import random
import signal
from contextlib import contextmanager
from pathlib import Path

import torch


@contextmanager
def process_unchanged():
    """After this context, the working directory, environment variables, Python's random state, signal handlers and
    torch's default dtype, precision and determinism are those from before it."""
    folder, environment, random_state = Path.cwd(), dict(os.environ), random.getstate()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    dtype, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    mode = torch.get_deterministic_debug_mode()
    try:
        yield
    finally:
        os.chdir(folder)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        random.setstate(random_state)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        torch.set_default_dtype(dtype)
        if torch.get_float32_matmul_precision() != precision:
            torch.set_float32_matmul_precision(precision)
        torch.set_deterministic_debug_mode(mode)
