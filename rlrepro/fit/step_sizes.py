"""The sizes of an update that you wrote yourself: arguments of its functions."""

import inspect
from collections.abc import Callable

from rlrepro.fit.memory_plan import CannotPlan


def accepted(function: Callable, sizes: dict) -> dict:
    """Those of the sizes that the function takes."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(sizes)
    return {name: size for name, size in sizes.items() if name in parameters}


def check_sizes(function: Callable, sizes: dict, *others) -> dict:
    """Those of the sizes that the function takes. Raises CannotPlan if, besides the `others`, it needs more."""
    taken = accepted(function, sizes)
    try:
        inspect.signature(function).bind(*others, **taken)
    except TypeError as error:
        name = getattr(function, "__name__", "it")
        raise CannotPlan(
            f"{name} is called as {name}({', '.join([*others, *taken])}): {error}. A size without a default needs a "
            "value, as batch_size=256 or --size batch_size 256"
        ) from None
    return taken


def default_sizes(step: Callable) -> dict[str, int]:
    """Those that have whole numbers as defaults."""
    parameters = inspect.signature(step).parameters.values()
    return {each.name: each.default for each in parameters if type(each.default) is int and each.default >= 1}
