"""A hash of a config that may hold functions."""

from types import CodeType, FunctionType

import cloudpickle
from joblib.hashing import NumpyHasher

PARTS = (  # of code: all but its name, its file and its lines; the last since Python 3.11
    *("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable"),
)


class Digest(NumpyHasher):
    """joblib's hash, but of functions by what they do rather than by their names, which another script may use too: by
    their code, defaults and closure. What they call is not followed."""

    dispatch = NumpyHasher.dispatch.copy()

    def save_function(self, fn) -> None:
        self.memoize(fn)  # it may refer to itself
        self.save(
            (fn.__code__, fn.__defaults__, fn.__kwdefaults__, [each.cell_contents for each in fn.__closure__ or ()])
        )

    def save_code(self, code) -> None:
        self.save([getattr(code, part, None) for part in PARTS])

    dispatch[FunctionType], dispatch[CodeType] = save_function, save_code
    dispatch[frozenset] = NumpyHasher.save_set  # constants of code, in an order that differs between processes


def digest(value) -> str:
    """32 hexadecimal digits, which are the same in every process of the same Python. Raises TypeError, AttributeError,
    ValueError or PicklingError for what can't be pickled."""
    return Digest().hash(value)


def identify(value) -> str:
    """The digest of what is to be found again in another process. Raises TypeError, too, if a copy has another one."""
    found = digest(value)
    if found != digest(cloudpickle.loads(cloudpickle.dumps(value))):
        raise TypeError("a copy of it hashes differently (as with tensors), so its results could not be found again")
    return found
