"""Imports and calls MODULE:FUNCTION, given on the command line."""

import importlib
import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rlrepro.fit.memory_plan import CannotPlan
from rlrepro.fit.user_code import cannot_plan

EXPECTED = "(actor, critic, obs_space, act_space)"


def call_builder(target: str) -> tuple:
    """Import MODULE, call FUNCTION and return its result: the first arguments of `plan`.

    MODULE may be in the working directory.

    Raises CannotPlan if there is no such function, if it fails, or if it returns anything else.
    """
    module, colon, function = target.partition(":")
    module = module.removesuffix(".py")
    if not (module and colon and function):
        raise CannotPlan(f"expected MODULE:FUNCTION, for example train:build_actor_critic; found {target!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with patch("sys.argv", [module]), redirect_stdout(sys.stderr):  # stdout is for the plan
            arguments = getattr(importlib.import_module(module), function)()
    except (Exception, SystemExit) as error:
        raise cannot_plan(error, f"{target} can't be imported and called, so it") from error
    if not isinstance(arguments, tuple | list) or not 1 <= len(arguments) <= 4:
        raise CannotPlan(f"{target} must return {EXPECTED}, or (policy,) for sb3-ppo; found {_describe(arguments)}")
    return arguments


def _describe(value) -> str:
    length = f" of {len(value)} values" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{length}"
