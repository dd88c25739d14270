"""Lets operators run on this machine's own GPU while a plan replaces torch.cuda."""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch

from rlrepro.fit.one_gpu import CUDA

ORIGINALS = {name: getattr(torch.cuda, name) for name in CUDA}


@contextmanager
def real_card():
    """Inside `one_card`, torch.cuda is that of this machine again."""
    with ExitStack() as stack:
        for name, function in ORIGINALS.items():
            stack.enter_context(patch.object(torch.cuda, name, function))
        yield
