"""MODULE:FUNCTION, as the command line takes it."""

import importlib
import sys
from pathlib import Path

from rlrepro.fit.result import CannotPlan

EXPECTED = "(actor, critic, obs_space, act_space)"


def call_builder(text: str) -> tuple:
    """What FUNCTION of MODULE returns, the first arguments of `plan`. Modules in the working folder are found.

    Raises CannotPlan, saying what was expected and what was found.
    """
    module, colon, function = text.partition(":")
    if not (module and colon and function):
        raise CannotPlan(f"expected MODULE:FUNCTION, for example train:build_actor_critic; found {text!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        built = getattr(importlib.import_module(module), function)()
    except Exception as error:
        raise CannotPlan(f"{text} can't be imported and called: {type(error).__name__}: {error}") from error
    if not isinstance(built, tuple) or not 1 <= len(built) <= 4:
        raise CannotPlan(f"{text} must return {EXPECTED}, or what of it the library needs; found {built!r:.60}")
    return built
