"""Notes the optimizers that never step in a plan, whose part of the update may be missing in it."""

from contextlib import contextmanager
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from rlrepro.fit.marks import note
from rlrepro.fit.user_code import own_line


@contextmanager
def idle_optimizers_noted():
    """Note each optimizer that is created in this context and has not stepped when it ends."""
    idle, init = WeakKeyDictionary(), torch.optim.Optimizer.__init__

    def register(self, *args, **kwargs):
        init(self, *args, **kwargs)
        idle[self] = own_line()

    handle = register_optimizer_step_post_hook(lambda optimizer, *_: idle.pop(optimizer, None))
    try:
        with patch.object(torch.optim.Optimizer, "__init__", register):
            yield
    finally:
        handle.remove()
    for line in idle.values():
        note(
            f"this optimizer never stepped, so the plan may lack the code before its step: {line}\n"
            "      if the step depends on a tensor's value, rlrepro.fit.reads(value) sets that value"
        )
