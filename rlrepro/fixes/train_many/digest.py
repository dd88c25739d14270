"""A hash of a config that may hold functions."""

import dis
from types import CodeType, FunctionType

import cloudpickle
import numpy as np
from joblib.hashing import NumpyHasher

PARTS = (  # of a code object, without its name, file and line numbers; the last exists since Python 3.11
    *("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable"),
)

PLAIN = (int, float, complex, bool, str, bytes, bytearray, type(None))


class Digest(NumpyHasher):
    """joblib's hash, except that functions are hashed by what they do (their code, defaults and closure, and the global
    constants that they read) rather than by their names, which another script may use too. Functions that they call are
    not included."""

    dispatch = NumpyHasher.dispatch.copy()

    def memoize(self, obj) -> None:
        if not _is_plain(obj):  # equal configs get equal digests, whether or not they hold the same list twice
            super().memoize(obj)

    def save_function(self, fn) -> None:
        self.memoize(fn)  # it may refer to itself
        cells, constants = [cell.cell_contents for cell in fn.__closure__ or ()], constants_of(fn)
        self.save((fn.__code__, fn.__defaults__, fn.__kwdefaults__, cells, *([constants] if constants else [])))

    def save_code(self, code) -> None:
        self.save([getattr(code, part, None) for part in PARTS])

    dispatch[FunctionType], dispatch[CodeType] = save_function, save_code
    dispatch[frozenset] = NumpyHasher.save_set  # constants of code, in an order that differs between processes


def constants_of(fn: FunctionType) -> dict[str, str]:
    """The digests of the global constants that a function reads, also in functions defined in it. A constant is a
    global variable that holds plain data: numbers, strings, bytes, None, NumPy's scalars, and lists, tuples, dicts and
    sets of these."""
    values = {name: fn.__globals__[name] for name in _global_names(fn.__code__) & fn.__globals__.keys()}
    return {name: digest(value) for name, value in sorted(values.items()) if _is_plain(value)}


def _global_names(code: CodeType) -> set[str]:
    names = {line.argval for line in dis.get_instructions(code) if line.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    nested = (_global_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return {name for name in names.union(*nested) if not name.startswith("__")}  # such as __file__


def _is_plain(value) -> bool:
    try:
        if type(value) is dict:
            return all(_is_plain(item) for pair in value.items() for item in pair)
        if type(value) in (list, tuple, set, frozenset):
            return all(map(_is_plain, value))
    except RecursionError:  # a list that holds itself
        return False
    return type(value) in PLAIN or isinstance(value, np.generic)


def digest(value) -> str:
    """32 hexadecimal digits, which are the same in every process of the same Python. Raises TypeError, AttributeError,
    ValueError or PicklingError for a value that can't be pickled."""
    return Digest().hash(value)


def identify(value) -> str:
    """The digest of a value that another process looks up. Also raises TypeError if a copy has a different digest."""
    value_digest = digest(value)
    if value_digest != digest(cloudpickle.loads(cloudpickle.dumps(value))):
        raise TypeError("a copy of it has another digest, as with tensors, so its results could not be found again")
    return value_digest
