"""The runs of a call of train_many, each with a name for its result."""

import hashlib
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter, getsource, signature, unwrap
from operator import attrgetter
from types import FunctionType
from typing import Any

import cloudpickle

from .digest import constants_of, digest, identify


@dataclass(frozen=True)
class Run:
    key: str  # of its config
    source: str  # of the function: a hash
    config: Mapping[str, Any]
    fn: Callable
    arguments: dict[str, Any]
    seed: int

    @property
    def name(self) -> str:
        """The name of its result."""
        return f"{self.key}-{self.source}"

    def payload(self) -> bytes:
        """The pickled call, made only when it is sent, since the payloads of all runs at once could fill the memory."""
        return cloudpickle.dumps((self.fn, self.arguments))


def prepare(fn, configs, seed: int) -> list[Run]:
    """One run per config. Raises ValueError, naming the config, if one can't be pickled or identified."""
    name = f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"
    needs_seed, source = _requires_seed(fn), _source(fn)
    counts, runs = Counter(), []
    for index, config in enumerate(configs):
        if not isinstance(config, Mapping):
            raise ValueError(f"config {index} must map names of parameters to values, found {config!r}")
        try:
            config_digest = identify((name, seed, dict(config)))
            counts[config_digest] += 1
            key = f"{config_digest}-{counts[config_digest]}"
            run_seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
            with_seed = {"seed": run_seed} if needs_seed and "seed" not in config else {}
            runs.append(Run(key, source, config, fn, {**config, **with_seed}, run_seed))
            runs[-1].payload()  # raises here, before anything runs
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"config {index} can't be used: {error}. Found {config!r}; in place of the object itself, pass what "
                "the run needs to make it (a name, a path, numbers)"
            ) from error
    return runs


def has_name(fn) -> bool:
    """Whether the name of `fn` is unique: either its module has it under that name, or it is a function that holds only
    its code."""
    if isinstance(fn, FunctionType) and fn.__name__ != "<lambda>" and fn.__closure__ is None:
        return True
    try:
        return attrgetter(fn.__qualname__)(sys.modules[fn.__module__]) is fn
    except (AttributeError, KeyError):  # no name, no module, or nothing under that name
        return False


def _requires_seed(fn) -> bool:
    try:
        parameter = signature(fn).parameters.get("seed")
    except (TypeError, ValueError):  # a builtin
        return False
    return parameter is not None and parameter.default is Parameter.empty


def _source(fn) -> str:
    """A hash of the code of `fn`, its source text, which includes decorators, the defaults of its parameters, and the
    global constants that it reads."""
    parts = [getattr(fn, name, None) for name in ("__code__", "__defaults__", "__kwdefaults__")]
    with suppress(OSError, TypeError):  # typed at a prompt, or a builtin
        parts.append(getsource(fn))
    if not any(parts):
        return "unknown"
    functions = [function for function in (fn, unwrap(fn)) if isinstance(function, FunctionType)]
    constants = [constants_of(function) for function in dict.fromkeys(functions)]
    parts += [constants] if any(constants) else []
    with suppress(pickle.PicklingError, TypeError, AttributeError, ValueError):
        return digest(parts)[:12]
    return digest([parts[0], *parts[3:]])[:12]  # defaults that can't be hashed are left out
