"""The sizes of an update that you wrote yourself: arguments of its functions."""

import inspect
from collections.abc import Callable

from rlrepro.fit.memory_plan import CannotPlan


def accepted(function: Callable, sizes: dict) -> dict:
    """The sizes that the function takes."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(sizes)
    return {name: size for name, size in sizes.items() if name in parameters}


def check_sizes(function: Callable, sizes: dict, *positional) -> dict:
    """The sizes that the function takes. Raises CannotPlan if it needs more arguments, apart from `positional`."""
    accepted_sizes = accepted(function, sizes)
    try:
        inspect.signature(function).bind(*positional, **accepted_sizes)
    except TypeError as error:
        name = getattr(function, "__name__", "it")
        raise CannotPlan(
            f"{name} is called as {name}({', '.join([*positional, *accepted_sizes])}): {error}. "
            "A size without a default needs a value: for example, batch_size=256 or --size batch_size 256"
        ) from None
    return accepted_sizes


def default_sizes(step: Callable) -> dict[str, int]:
    """The arguments of `step` that have whole numbers as defaults."""
    parameters = inspect.signature(step).parameters.values()
    return {p.name: p.default for p in parameters if type(p.default) is int and p.default >= 1}
