"""The runs that a call of train_many asks for, each with a name for its result."""

import hashlib
import marshal
import pickle
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter, getsource, signature
from operator import attrgetter
from types import FunctionType
from typing import Any

import cloudpickle
import joblib


@dataclass(frozen=True)
class Run:
    key: str  # of its config
    source: str  # of the function: a hash
    config: Mapping[str, Any]
    payload: bytes  # fn and config
    seed: int

    @property
    def name(self) -> str:
        """Of its result."""
        return f"{self.key}-{self.source}"


def prepare(fn, configs, seed: int) -> list[Run]:
    """The runs that the configs ask for. Raises ValueError, which names the config, if one can't be sent to another
    process."""
    name = f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"
    needs_seed, source = _requires_seed(fn), _source(fn)
    seen, runs = Counter(), []
    for index, config in enumerate(configs):
        if not isinstance(config, Mapping):
            raise ValueError(f"config {index} must map names of parameters to values, found {config!r}")
        try:
            digest = joblib.hash((name, seed, dict(config)))
            if digest != joblib.hash(cloudpickle.loads(cloudpickle.dumps((name, seed, dict(config))))):
                raise TypeError(
                    "a copy of it hashes differently (as with tensors), so its results could not be found again"
                )
            seen[digest] += 1
            key = f"{digest}-{seen[digest]}"
            run_seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
            with_seed = {"seed": run_seed} if needs_seed and "seed" not in config else {}
            payload = cloudpickle.dumps((fn, {**config, **with_seed}))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ValueError(
                f"config {index} can't be sent to another process: {error}. Found {config!r}; in place of the object "
                "itself, give what the run needs to make it (a name, a path, numbers)"
            ) from error
        runs.append(Run(key, source, config, payload, run_seed))
    return runs


def has_name(fn) -> bool:
    """Whether the name of `fn` is unique: its module has it under that name, or it is a function that holds nothing but
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
    """A hash of the text of `fn`, or of its code where there is no text, and of the defaults of its arguments."""
    code = getattr(fn, "__code__", None)
    defaults = [getattr(fn, name, None) for name in ("__defaults__", "__kwdefaults__")]
    try:
        text = getsource(fn).encode()
    except (OSError, TypeError):  # typed at a prompt, or a builtin
        text = b"" if code is None else marshal.dumps(code.replace(co_firstlineno=1))
    with suppress(pickle.PicklingError, TypeError):  # what can't be hashed is not told apart
        text += joblib.hash(defaults).encode() if any(defaults) else b""
    return hashlib.sha256(text).hexdigest()[:12] if text else "unknown"
