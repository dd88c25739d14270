"""A hash of a config that may hold functions."""

from types import CodeType, FunctionType

import cloudpickle
from joblib.hashing import NumpyHasher

PARTS = (  # of a code object, without its name, file and line numbers; the last exists since Python 3.11
    *("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable"),
)


class Digest(NumpyHasher):
    """joblib's hash, except that functions are hashed by what they do (their code, defaults and closure) rather than by
    their names, which another script may use too. Functions that they call are not included."""

    dispatch = NumpyHasher.dispatch.copy()

    def save_function(self, fn) -> None:
        self.memoize(fn)  # it may refer to itself
        self.save(
            (fn.__code__, fn.__defaults__, fn.__kwdefaults__, [cell.cell_contents for cell in fn.__closure__ or ()])
        )

    def save_code(self, code) -> None:
        self.save([getattr(code, part, None) for part in PARTS])

    dispatch[FunctionType], dispatch[CodeType] = save_function, save_code
    dispatch[frozenset] = NumpyHasher.save_set  # constants of code, in an order that differs between processes


def digest(value) -> str:
    """32 hexadecimal digits, which are the same in every process of the same Python. Raises TypeError, AttributeError,
    ValueError or PicklingError for a value that can't be pickled."""
    return Digest().hash(value)


def identify(value) -> str:
    """The digest of a value that another process looks up. Also raises TypeError if a copy has a different digest."""
    value_digest = digest(value)
    if value_digest != digest(cloudpickle.loads(cloudpickle.dumps(value))):
        raise TypeError("a copy of it hashes differently (as with tensors), so its results could not be found again")
    return value_digest
