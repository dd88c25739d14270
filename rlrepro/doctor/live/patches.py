"""Replace functions of other libraries for a while, and put them back."""

import functools
import operator
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from types import MethodType

LASTING = ("__init__", "__init_subclass__", "step", "reset")  # also in a rest: object creation, environments


class Patches:
    """Functions that are replaced until `undo`. `make(original)` returns the function that replaces the original."""

    def __init__(self):
        self._replaced = []  # (owner, name, original or None, replacement)
        self._suspended = False
        self._finder = None
        self._at_undo = []

    def at_undo(self, callback: Callable[[], None]) -> None:
        """Register a function that `undo` also calls."""
        self._at_undo.append(callback)

    def replace(self, owner, name: str, make: Callable) -> None:
        """Replace an attribute that `owner` itself defines. Does nothing if it has none or it is already replaced."""
        original = vars(owner).get(name)
        if not callable(original) or isinstance(original, staticmethod | classmethod):
            return
        if any(entry[3] is original for entry in self._replaced):
            return
        replacement = functools.wraps(original)(make(original))
        if isinstance(owner, type) and (owner.__module__ == "__main__" or "<locals>" in owner.__qualname__):
            replacement = _StandIn(original, replacement)
        if not self._suspended:
            setattr(owner, name, replacement)
        self._replaced.append((owner, name, original, replacement))

    def shadow(self, cls: type, name: str, function: Callable) -> None:
        """Define a method on a class that inherits a replaced one, so that the replacement is not called."""
        if name not in vars(cls):
            setattr(cls, name, function)
            self._replaced.append((cls, name, None, function))

    def put_back(self, function: Callable) -> None:
        """Put back the original that a function replaced."""
        for entry in self._replaced:
            if getattr(entry[3], "_replacement", entry[3]) is function:
                self._replaced.remove(entry)
                self._put_back(*entry)
                return

    def methods(self, base: type, name: str, make: Callable) -> None:
        """Replace a method of a class and of all subclasses that define it, including those that are created later."""
        for cls in (base, *_subclasses(base)):
            self.replace(cls, name, make)
        original = vars(base).get("__init_subclass__")

        def init_subclass(cls, **options):
            original.__func__(cls, **options) if original else super(base, cls).__init_subclass__(**options)
            self.replace(cls, name, make)

        replacement = classmethod(init_subclass)
        base.__init_subclass__ = replacement
        self._replaced.append((base, "__init_subclass__", original, replacement))

    def when_imported(self, module: str, callback: Callable) -> None:
        """Call `callback(module)` now, or as soon as the module has been imported."""
        if module in sys.modules:
            callback(sys.modules[module])
            return
        if self._finder is None:
            self._finder = _Finder()
            sys.meta_path.insert(0, self._finder)
        self._finder.callbacks.setdefault(module, []).append(callback)

    def suspend(self) -> None:
        """Put everything back for a while, except what creates objects and classes or steps environments."""
        self._suspended = True
        for owner, name, original, replacement in self._replaced:
            if name not in LASTING:
                self._put_back(owner, name, original, replacement)

    def resume(self) -> None:
        """Replace everything again, except what other code has replaced in the meantime."""
        if not self._suspended:
            return
        for owner, name, original, replacement in self._replaced:
            if vars(owner).get(name) is original:
                setattr(owner, name, replacement)
        self._suspended = False

    def undo(self) -> None:
        """Put everything back, except what other code has replaced in the meantime."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._finder = None
        while self._at_undo:
            self._at_undo.pop()()
        while self._replaced:
            self._put_back(*self._replaced.pop())

    @staticmethod
    def _put_back(owner, name: str, original, replacement) -> None:
        if vars(owner).get(name) is replacement:
            delattr(owner, name) if original is None else setattr(owner, name, original)


class _StandIn:
    """Replaces a method of a class that can't be imported. cloudpickle pickles such a class with its methods; this
    object is pickled as the original, so that the process that loads it does not need rlrepro."""

    def __init__(self, original, replacement):
        functools.update_wrapper(self, original)
        self._original, self._replacement = original, replacement

    def __get__(self, instance, owner=None):
        return self._replacement if instance is None else MethodType(self._replacement, instance)

    def __call__(self, *args, **kwargs):
        return self._replacement(*args, **kwargs)

    def __reduce__(self):
        return operator.itemgetter(0), ((self._original,),)


def _subclasses(base: type):
    for cls in base.__subclasses__():
        yield cls
        yield from _subclasses(cls)


class _Finder(MetaPathFinder):
    """Finds nothing itself: it wraps the loaders that other finders return, to call back after a module was loaded."""

    def __init__(self):
        self.callbacks = {}

    def find_spec(self, name, path=None, target=None):
        if name not in self.callbacks:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self.callbacks)
                return spec
        return None


class _Loader(Loader):
    """Behaves like the loader that it wraps, and calls back after it has loaded the module."""

    def __init__(self, loader, callbacks):
        self.loader, self.callbacks = loader, callbacks

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader  # leave no trace of this wrapper
        self.loader.exec_module(module)
        for callback in self.callbacks.pop(module.__name__, ()):
            callback(module)
