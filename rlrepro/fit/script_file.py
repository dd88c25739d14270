"""`rlrepro fit train.py`: finds the update of a file, by a decorator or by name, and plans it."""

import importlib.util
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from sys import stderr
from unittest.mock import patch

from torch.optim.optimizer import register_optimizer_step_pre_hook

from rlrepro.fit.marks import ATTRIBUTE
from rlrepro.fit.measured_alone import MeasuredAlone
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import OwnUpdateRun, plan_update
from rlrepro.fit.step_sizes import accepted, check_sizes, default_sizes
from rlrepro.fit.training import folder_on_path, plan_training, script
from rlrepro.fit.user_code import cannot_plan, own_line

HOW = (
    "mark one update, step(state, ...), with @rlrepro.fit.plannable(make), or a function that trains with "
    "@rlrepro.fit.plannable(), or call them make and step"
)


def plan_file(
    path: Path, name: str | None, arguments: tuple[str, ...], sizes: dict[str, int], gib: float, device: str = "cuda"
) -> Plan:
    """Plan the update that FILE has: the function `name`, the one that is marked with `plannable`, or `make` and
    `step`. A file without these is run as a script with `arguments`, until its optimizers have made a few steps.

    The file is imported within the plan, on tensors that take no memory. Raises CannotPlan if there is no such file
    or function, if it fails, and if it trains while it is imported although it has such a function.
    """
    if not path.is_file():
        raise CannotPlan(f"{path} is not a file")
    with redirect_stdout(stderr), patch("sys.argv", [str(path), *arguments]):  # stdout is for the plan
        with OwnUpdateRun(device, MeasuredAlone("cpu")):
            make, step, given = _find(path, name)
            takes = {} if step is None else default_sizes(step) | given
        if make is None:
            if step is None:
                train = script(path, arguments)
            else:
                check_sizes(step, takes | sizes)
                train = _reloaded(path, name)
            return plan_training(train, device=device, device_memory_gib=gib, **takes | sizes)

        def make_again(**every):
            make, step, _ = _find(path, name)
            return step, make(**accepted(make, every))

        def step_again(state, **every):
            state[0](state[1], **accepted(state[0], every))

        check_sizes(make, takes | sizes)
        check_sizes(step, takes | sizes, "state")
        if unknown := sizes.keys() - accepted(make, sizes).keys() - accepted(step, sizes).keys():
            raise CannotPlan(f"{step.__name__} has no size {', '.join(sorted(unknown))}")
        return plan_update(make_again, step_again, device=device, device_memory_gib=gib, **takes | sizes)


def _reloaded(path: Path, name: str | None) -> Callable:
    def train(**sizes):
        _, train, _ = _find(path, name)
        train(**sizes)

    return train


class _Trains(BaseException):
    """A file trains while it is imported. Not an Exception, so that no handler in the file stops this."""


def _load(path: Path):
    """(the module in that file, imported anew; the line at which that ended because the file trains, or None)."""

    def end(*_):
        raise _Trains(own_line())

    handle, line = register_optimizer_step_pre_hook(end), None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        with folder_on_path(path.parent), patch.dict("sys.modules", {path.stem: module}):
            spec.loader.exec_module(module)
    except CannotPlan:
        raise
    except _Trains as trains:
        line = str(trains)
    except (Exception, SystemExit) as error:
        raise cannot_plan(error, f"{path} can't be imported, so it") from error
    finally:
        handle.remove()
    return module, line


def _find(path: Path, name: str | None):
    """(make, step, sizes): without make, step trains; without step, the file is a script."""
    module, line = _load(path)
    marked = [each for each in vars(module).values() if hasattr(each, ATTRIBUTE)]
    if line is not None:
        if name is None and not marked:
            return None, None, {}
        raise CannotPlan(
            f'{path} trains while it is imported, at {line}\nput that under `if __name__ == "__main__":`, or into a '
            f"function, and {HOW}"
        )
    if name is not None:
        if not callable(step := getattr(module, name, None)):
            raise CannotPlan(f"{module.__file__} has no function {name!r}")
    elif len(marked) > 1:
        names = ", ".join(each.__name__ for each in marked)
        raise CannotPlan(f"{module.__file__} has several functions to plan: choose one of {names}, as FILE:FUNCTION")
    else:
        step = marked[0] if marked else getattr(module, "step", None)
    if step is None:
        if "__main__" not in Path(module.__file__).read_text():
            raise CannotPlan(f"{module.__file__} has nothing to plan: {HOW}")
        return None, None, {}
    make, sizes = getattr(step, ATTRIBUTE, (None, {}))
    if make is None and not hasattr(step, ATTRIBUTE):
        make = getattr(module, "make", None)
        if make is None:
            raise CannotPlan(f"{module.__file__} has {step.__name__}, but no make() that builds its state: {HOW}")
    return make, step, sizes
