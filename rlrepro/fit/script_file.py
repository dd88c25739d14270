"""`rlrepro fit train.py`: finds the update of a file, by a decorator or by name, and plans it."""

import importlib.util
import sys
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from symtable import symtable
from unittest.mock import patch

from torch.optim.optimizer import register_optimizer_step_pre_hook

from rlrepro.fit.marks import ATTRIBUTE
from rlrepro.fit.measured_alone import MeasuredAlone
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.no_writes import files_unchanged
from rlrepro.fit.own_update import OwnUpdateRun, plan_update
from rlrepro.fit.step_sizes import accepted, check_sizes, default_sizes
from rlrepro.fit.training import ADVICE, folder_on_path, plan_training, script
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
    with redirect_stdout(sys.stderr), patch("sys.argv", [str(path), *arguments]):  # stdout is for the plan
        if name is None and not _has_update(path):
            return plan_training(script(path, arguments), device=device, device_memory_gib=gib, **sizes)
        with OwnUpdateRun(device, MeasuredAlone("cpu")):
            make, step, marked_sizes = _find(path, name)
            known_sizes = default_sizes(step) | marked_sizes
        if make is None:
            check_sizes(step, known_sizes | sizes)
            return plan_training(
                lambda **all_sizes: _find(path, name)[1](**all_sizes),
                device=device,
                device_memory_gib=gib,
                **known_sizes | sizes,
            )

        @wraps(make)
        def make_again(**make_sizes):
            reloaded_make, reloaded_step, _ = _find(path, name)
            with files_unchanged():
                return reloaded_step, reloaded_make(**make_sizes)

        @wraps(step)
        def step_again(state, **step_sizes):
            with files_unchanged():
                state[0](state[1], **step_sizes)

        if unknown := sizes.keys() - accepted(make, sizes).keys() - accepted(step, sizes).keys():
            raise CannotPlan(
                f"{step.__name__} has no size {', '.join(sorted(unknown))}: it must be one of its parameters"
            )
        return plan_update(make_again, step_again, device=device, device_memory_gib=gib, **known_sizes | sizes)


def _has_update(path: Path) -> bool:
    """Whether the file marks a function, or has functions `make` and `step`, according to its text."""
    text = path.read_bytes()
    try:
        symbols = symtable(text, str(path), "exec").get_symbols()
    except (SyntaxError, ValueError):  # running it will report the error
        return False
    functions = {symbol.get_name() for symbol in symbols if symbol.is_namespace() or symbol.is_imported()}
    return b"plannable(" in text or {"make", "step"} <= functions


class _TrainingStarted(BaseException):
    """Raised if a file trains while it is imported. It is not an Exception, so that the file does not catch it."""


def _load(path: Path):
    """Import the file again, and return the module."""

    def stop(*_):
        raise _TrainingStarted(own_line())

    handle = register_optimizer_step_pre_hook(stop)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        with files_unchanged(), folder_on_path(path.parent), patch.dict("sys.modules", {path.stem: module}):
            spec.loader.exec_module(module)
    except CannotPlan:
        raise
    except _TrainingStarted as started:
        raise CannotPlan(
            f'{path} trains while it is imported, at {started}\nput that under `if __name__ == "__main__":`, or into a '
            f"function, and {ADVICE}"
        ) from None
    except (Exception, SystemExit) as error:
        raise cannot_plan(error, f"{path} can't be imported, so it") from error
    finally:
        handle.remove()
    return module


def _find(path: Path, name: str | None):
    """(make, step, sizes). If `make` is None, `step` is a function that trains."""
    module = _load(path)
    marked = [function for function in vars(module).values() if hasattr(function, ATTRIBUTE)]
    if name is not None:
        if not callable(step := getattr(module, name, None)):
            raise CannotPlan(f"{module.__file__} has no function {name!r}")
    elif len(marked) > 1:
        names = ", ".join(function.__name__ for function in marked)
        raise CannotPlan(f"{module.__file__} has several functions to plan: choose one of {names}, as FILE:FUNCTION")
    else:
        step = marked[0] if marked else getattr(module, "step", None)
        if step is None:
            raise CannotPlan(f"{module.__file__} has nothing to plan: {ADVICE}")
    make, sizes = getattr(step, ATTRIBUTE, (None, {}))
    if make is None and not hasattr(step, ATTRIBUTE):
        make = getattr(module, "make", None)
        if make is None:
            raise CannotPlan(f"{module.__file__} has {step.__name__}, but no make() that builds its state: {ADVICE}")
    return make, step, sizes
