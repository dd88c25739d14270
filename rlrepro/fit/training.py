"""plan_training(train): the first updates of a function or a script that trains, unchanged."""

import os
import runpy
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock, patch
from weakref import WeakSet

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.no_writes import files_unchanged
from rlrepro.fit.own_update import OwnUpdatePlanner

STEPS = 20  # of one optimizer, and at least two of every other: then each has its state, and loops have repeated
MAX_STEPS = 200  # of one optimizer, if another never steps
ADVICE = (
    "mark one update, step(state, ...), with @rlrepro.fit.plannable(make), or a function that trains with "
    "@rlrepro.fit.plannable(), or call them make and step"
)
TOO_SHORT = (
    f"ended before an optimizer had made {STEPS} steps: pass arguments with which it trains longer, or starts to learn "
    "sooner"
)
LOGGERS = ("torch.utils.tensorboard", "wandb")  # a plan logs nothing


def plan_training(train, *, device: str = "cuda", device_memory_gib: float | None = None, **sizes: int) -> Plan:
    """Plan the beginning of `train(**sizes)`, until its optimizers have made a few steps.

    Environments are stepped for real, with actions of zeros: choose arguments with which learning starts soon. Files
    that Python code writes are copies, deleted at the end. Raises CannotPlan as `plan_update` does, and if the function
    returns before an optimizer has made a few steps.
    """

    def step(_, **arguments):
        with files_unchanged(), _stopping_early():
            train(**arguments)
            raise CannotPlan(f"it {TOO_SHORT}")

    planner = OwnUpdatePlanner(lambda: None, step, device, updates=1)
    return planner.plan(device_memory_gib=device_memory_gib, **sizes)


def script(path: Path, arguments: tuple[str, ...] = ()):
    """A function that runs that script, as `python PATH ARGUMENTS --size=...` does."""

    def train(**sizes):
        options = [f"--{name.replace('_', '-')}={size}" for name, size in sizes.items()]
        with patch("sys.argv", [str(path), *arguments, *options]), folder_on_path(path.parent):
            try:
                runpy.run_path(str(path), run_name="__main__")
            except SystemExit as error:
                raise CannotPlan(f"{path} exited with code {error.code}: see its message above") from error
        raise CannotPlan(f"{path} {TOO_SHORT}. If it does not train when it is run: {ADVICE}")

    return train


@contextmanager
def folder_on_path(folder: Path):
    """Make imports find modules of this folder first, as for a script in it, and loggers that do nothing."""
    with patch("sys.path", [str(folder), *sys.path]), patch.dict(sys.modules, dict.fromkeys(LOGGERS, MagicMock())):
        yield


class _EnoughSteps(BaseException):
    """Raised to end the training. It is not an Exception, so that the training does not catch it."""


@contextmanager
def _stopping_early():
    """Leave this context once the optimizers that were created in it have stepped often enough."""
    optimizers, steps, init, pid = WeakSet(), Counter(), Optimizer.__init__, os.getpid()

    def register(self, *args, **kwargs):
        init(self, *args, **kwargs)
        optimizers.add(self)

    def count_step(stepped, *_):
        if os.getpid() != pid:
            raise CannotPlan("it trains in processes that it forks: plan what one of them does")
        steps[id(stepped)] += 1
        if max(steps.values()) >= MAX_STEPS:
            raise _EnoughSteps
        if max(steps.values()) >= STEPS and all(steps[id(optimizer)] >= 2 for optimizer in optimizers):
            raise _EnoughSteps

    handle = register_optimizer_step_post_hook(count_step)
    try:
        with patch.object(Optimizer, "__init__", register):
            yield
    except _EnoughSteps:
        pass
    finally:
        handle.remove()
