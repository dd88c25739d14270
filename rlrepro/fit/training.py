"""plan_training(train): the first updates of a function or a script that trains, as it stands."""

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
from rlrepro.fit.own_update import OwnUpdatePlanner

STEPS = 20  # of one optimizer, with two at least of every other: each has its state then, and loops have come round
MOST_STEPS = 200  # of one optimizer, if another never steps
HOW = (
    "mark one update, step(state, ...), with @rlrepro.fit.plannable(make), or a function that trains with "
    "@rlrepro.fit.plannable(), or call them make and step"
)
TOO_SHORT = (
    f"ended before an optimizer had made {STEPS} steps: give arguments with which it trains longer, or starts to learn "
    "sooner"
)
LOGGERS = ("torch.utils.tensorboard", "wandb")  # a plan logs nothing


def plan_training(train, *, device: str = "cuda", device_memory_gib: float | None = None, **sizes: int) -> Plan:
    """Plan the beginning of `train(**sizes)`, until its optimizers have made a few steps.

    Environments are stepped for real, with actions of zeros: choose arguments with which learning starts soon. Raises
    CannotPlan as `plan_update` does, and if the function returns before an optimizer has stepped.
    """

    def step(_, **given):
        with _stopped_early():
            train(**given)
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
                raise CannotPlan(f"{path} left with exit code {error.code}: see its message above") from error
        raise CannotPlan(f"{path} {TOO_SHORT}. If it does not train when it is run: {HOW}")

    return train


@contextmanager
def folder_on_path(folder: Path):
    """Imports find modules of this folder first, as for a script in it, and loggers that do nothing."""
    with patch("sys.path", [str(folder), *sys.path]), patch.dict(sys.modules, dict.fromkeys(LOGGERS, MagicMock())):
        yield


class _Enough(BaseException):
    """Ends the training. Not an Exception, so that no handler in it stops this."""


@contextmanager
def _stopped_early():
    """Leaves this context once the optimizers that were made in it have stepped often enough."""
    made, steps, init, own = WeakSet(), Counter(), Optimizer.__init__, os.getpid()

    def remember(self, *args, **kwargs):
        init(self, *args, **kwargs)
        made.add(self)

    def count(optimizer, *_):
        if os.getpid() != own:
            raise CannotPlan("it trains in processes that it forks: plan what one of them does")
        steps[id(optimizer)] += 1
        if max(steps.values()) >= MOST_STEPS:
            raise _Enough
        if max(steps.values()) >= STEPS and all(steps[id(each)] >= 2 for each in made):
            raise _Enough

    handle = register_optimizer_step_post_hook(count)
    try:
        with patch.object(Optimizer, "__init__", remember):
            yield
    except _Enough:
        pass
    finally:
        handle.remove()
