"""Functions of other people's libraries that are replaced for a while, and put back."""

import functools
import operator
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from types import MethodType

LASTING = ("__init__", "__init_subclass__", "step", "reset")  # of classes whose objects are made, and environments


class Patches:
    """What is replaced until `undo`. `make(original)` returns the function that takes the original's place."""

    def __init__(self):
        self._replaced = []  # (owner, name, what was there or None, what is there now)
        self._suspended = False
        self._finder = None
        self._at_undo = []

    def at_undo(self, call: Callable[[], None]) -> None:
        """Call this as well when everything is put back."""
        self._at_undo.append(call)

    def replace(self, owner, name: str, make: Callable) -> None:
        """Replace what `owner` itself has under a name; nothing where it has none, or it was replaced already."""
        original = vars(owner).get(name)
        if not callable(original) or isinstance(original, staticmethod | classmethod):
            return
        if any(each[3] is original for each in self._replaced):
            return
        now = functools.wraps(original)(make(original))
        if isinstance(owner, type) and (owner.__module__ == "__main__" or "<locals>" in owner.__qualname__):
            now = _StandIn(original, now)
        if not self._suspended:
            setattr(owner, name, now)
        self._replaced.append((owner, name, original, now))

    def shadow(self, cls: type, name: str, function: Callable) -> None:
        """Give a class a method of its own before a replaced one that it inherits."""
        if name not in vars(cls):
            setattr(cls, name, function)
            self._replaced.append((cls, name, None, function))

    def put_back(self, function: Callable) -> None:
        """Put back what one function replaced."""
        for entry in self._replaced:
            if getattr(entry[3], "_now", entry[3]) is function:
                self._replaced.remove(entry)
                self._put_back(*entry)
                return

    def methods(self, base: type, name: str, make: Callable) -> None:
        """Replace a method of a class and of all its subclasses that define it, also those that are made later."""
        for cls in (base, *_subclasses(base)):
            self.replace(cls, name, make)
        own = vars(base).get("__init_subclass__")

        def also(cls, **options):
            own.__func__(cls, **options) if own else super(base, cls).__init_subclass__(**options)
            self.replace(cls, name, make)

        now = classmethod(also)
        base.__init_subclass__ = now
        self._replaced.append((base, "__init_subclass__", own, now))

    def when_imported(self, module: str, then: Callable) -> None:
        """Call `then(module)` now, or as soon as the module has been imported."""
        if module in sys.modules:
            then(sys.modules[module])
            return
        if self._finder is None:
            self._finder = _Finder()
            sys.meta_path.insert(0, self._finder)
        self._finder.waiting.setdefault(module, []).append(then)

    def suspend(self) -> None:
        """Put everything back for a while, except what creates objects and classes, and steps environments."""
        self._suspended = True
        for owner, name, original, now in self._replaced:
            if name not in LASTING:
                self._put_back(owner, name, original, now)

    def resume(self) -> None:
        """End that. What somebody else has replaced since stays theirs."""
        if not self._suspended:
            return
        for owner, name, original, now in self._replaced:
            if vars(owner).get(name) is original:
                setattr(owner, name, now)
        self._suspended = False

    def undo(self) -> None:
        """Put everything back. What somebody else has replaced since stays theirs."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._finder = None
        while self._at_undo:
            self._at_undo.pop()()
        while self._replaced:
            self._put_back(*self._replaced.pop())

    @staticmethod
    def _put_back(owner, name: str, original, now) -> None:
        if vars(owner).get(name) is now:
            delattr(owner, name) if original is None else setattr(owner, name, original)


class _StandIn:
    """Takes a method's place in a class that can't be imported. cloudpickle pickles such a class with its methods: this
    one as the original, so that whoever loads it needs no rlrepro."""

    def __init__(self, original, now):
        functools.update_wrapper(self, original)
        self._original, self._now = original, now

    def __get__(self, instance, owner=None):
        return self._now if instance is None else MethodType(self._now, instance)

    def __call__(self, *args, **kwargs):
        return self._now(*args, **kwargs)

    def __reduce__(self):
        return operator.itemgetter(0), ((self._original,),)


def _subclasses(base: type):
    for cls in base.__subclasses__():
        yield cls
        yield from _subclasses(cls)


class _Finder(MetaPathFinder):
    """Finds nothing itself: it is told what the others find, and calls back when that has been loaded."""

    def __init__(self):
        self.waiting = {}

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self.waiting)
                return spec
        return None


class _Loader(Loader):
    """Another loader, for all purposes; when it has loaded the module, those who wait for it are called."""

    def __init__(self, loader, waiting):
        self.loader, self.waiting = loader, waiting

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader  # as if this had never been here
        self.loader.exec_module(module)
        for then in self.waiting.pop(module.__name__, ()):
            then(module)
