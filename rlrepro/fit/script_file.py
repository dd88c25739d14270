"""`rlrepro fit train.py`: finds the update of a file, by a decorator or by name, and plans it."""

import importlib.util
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from symtable import symtable
from sys import stderr
from unittest.mock import patch

from torch.optim.optimizer import register_optimizer_step_pre_hook

from rlrepro.fit.marks import ATTRIBUTE
from rlrepro.fit.measured_alone import MeasuredAlone
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import OwnUpdateRun, plan_update
from rlrepro.fit.step_sizes import accepted, check_sizes, default_sizes
from rlrepro.fit.training import HOW, folder_on_path, plan_training, script
from rlrepro.fit.user_code import cannot_plan, own_line


def plan_file(
    path: Path, name: str | None, arguments: tuple[str, ...], sizes: dict[str, int], gib: float, device: str = "cuda"
) -> Plan:
    """Plan the update that FILE has: the function `name`, the one that is marked with `plannable`, or `make` and
    `step`. A file without these is run as a script with `arguments`, until its optimizers have made a few steps.

    The file is imported within the plan, on tensors that take no memory. Raises CannotPlan if there is no such file
    or function, if it fails, and if it has such a function but trains while it is imported.
    """
    if not path.is_file():
        raise CannotPlan(f"{path} is not a file")
    with redirect_stdout(stderr), patch("sys.argv", [str(path), *arguments]):  # stdout is for the plan
        if name is None and not _has_update(path):
            return plan_training(script(path, arguments), device=device, device_memory_gib=gib, **sizes)
        with OwnUpdateRun(device, MeasuredAlone("cpu")):
            make, step, given = _find(path, name)
            takes = default_sizes(step) | given
        if make is None:
            check_sizes(step, takes | sizes)
            return plan_training(_reloaded(path, name), device=device, device_memory_gib=gib, **takes | sizes)

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


def _has_update(path: Path) -> bool:
    """Whether the file marks a function, or has functions `make` and `step`. Its text tells, without running it."""
    text = path.read_bytes()
    try:
        symbols = symtable(text, str(path), "exec").get_symbols()
    except (SyntaxError, ValueError):  # running it will say what is wrong
        return False
    functions = {each.get_name() for each in symbols if each.is_namespace() or each.is_imported()}
    return b"plannable(" in text or {"make", "step"} <= functions


class _Trains(BaseException):
    """A file trains while it is imported. Not an Exception, so that no handler in the file stops this."""


def _load(path: Path):
    """The module in that file, imported anew."""

    def end(*_):
        raise _Trains(own_line())

    handle = register_optimizer_step_pre_hook(end)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        with folder_on_path(path.parent), patch.dict("sys.modules", {path.stem: module}):
            spec.loader.exec_module(module)
    except CannotPlan:
        raise
    except _Trains as trains:
        raise CannotPlan(
            f'{path} trains while it is imported, at {trains}\nput that under `if __name__ == "__main__":`, or into a '
            f"function, and {HOW}"
        ) from None
    except (Exception, SystemExit) as error:
        raise cannot_plan(error, f"{path} can't be imported, so it") from error
    finally:
        handle.remove()
    return module


def _find(path: Path, name: str | None):
    """(make, step, sizes); without make, step trains."""
    module = _load(path)
    marked = [each for each in vars(module).values() if hasattr(each, ATTRIBUTE)]
    if name is not None:
        if not callable(step := getattr(module, name, None)):
            raise CannotPlan(f"{module.__file__} has no function {name!r}")
    elif len(marked) > 1:
        names = ", ".join(each.__name__ for each in marked)
        raise CannotPlan(f"{module.__file__} has several functions to plan: choose one of {names}, as FILE:FUNCTION")
    else:
        step = marked[0] if marked else getattr(module, "step", None)
        if step is None:
            raise CannotPlan(f"{module.__file__} has nothing to plan: {HOW}")
    make, sizes = getattr(step, ATTRIBUTE, (None, {}))
    if make is None and not hasattr(step, ATTRIBUTE):
        make = getattr(module, "make", None)
        if make is None:
            raise CannotPlan(f"{module.__file__} has {step.__name__}, but no make() that builds its state: {HOW}")
    return make, step, sizes
