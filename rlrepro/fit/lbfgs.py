"""Plans a full step of torch.optim.LBFGS: a dry run's numbers are all ones, so its tolerances would end it at once."""

from contextlib import contextmanager
from unittest.mock import patch

import torch

from rlrepro.fit.marks import note

TOLERANCES = "tolerance_grad", "tolerance_change"


@contextmanager
def lbfgs_to_its_end():
    """In this context, LBFGS makes all of its iterations, and its history is full after the first step."""
    step = torch.optim.LBFGS.step

    def full_step(self, closure):
        (group,) = self.param_groups
        tolerances = {name: group[name] for name in TOLERANCES}
        group.update(dict.fromkeys(TOLERANCES, -float("inf")))
        try:
            loss = step(self, closure)
        finally:
            group.update(tolerances)
        state = self.state[self._params[0]]
        for name in ("old_dirs", "old_stps", "ro"):
            if history := state.get(name):
                history.extend(history[-1].clone() for _ in range(group["history_size"] - len(history)))
                state.setdefault(f"unused_{name}", history[-1].clone())  # beside a full history, once it has converged
        note("LBFGS is planned with all of its iterations, and with a full history")
        return loss

    with patch.object(torch.optim.LBFGS, "step", full_step):
        yield
