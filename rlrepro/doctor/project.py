"""The project that a file belongs to: its modules, their imports, and the definitions behind names."""

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rlrepro.doctor.ast_index import FUNCTIONS, LARGEST, Module
from rlrepro.doctor.file_walk import folders_below
from rlrepro.doctor.versions import Versions

JOBS = (".sh", ".bash", ".bat", ".sbatch", ".slurm", ".pbs", ".job", ".sub")
TEXTS = (".py", ".ipynb", ".yaml", ".yml", ".toml", ".cfg", ".env", ".md", ".rst", *JOBS)
NAMES = re.compile("Dockerfile|Makefile|sbatch|slurm")
SETTINGS = (".sh", ".yaml", ".yml", ".toml", ".cfg", ".json", ".gin")  # these may name what runs
TOP = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")  # these mark the root of a project
ABOVE = 8  # parent folders that are searched for an import
NEAR = 30  # modules searched for a method
MOST_MODULES = 100  # followed from one module
RE_EXPORTS = 5  # consecutive re-exports that are followed


class Definition(NamedTuple):
    """A function, a class or a whole module, and the module that contains it."""

    module: Module
    node: ast.AST


class Project:
    """One project: its `versions`, and its modules, which are read on demand. `read(path)` returns a Module, or None if
    the file can't be read."""

    def __init__(self, root: Path, read: Callable[[Path], Module | None], versions: Versions):
        self.root, self.read, self.versions = root, cache(read), versions
        self._file = cache(self._find)  # the same few are imported everywhere
        self._imports: dict[Module, list[Module]] = {}
        self._direct: dict[Module, list[Module]] = {}
        self._importers: dict[Module, list[Module]] = {}
        self._beside: dict[Path, list[Module]] = {}
        self._mentioned: dict[tuple[re.Pattern, Path], bool] = {}

    def mentions(self, pattern: re.Pattern, near: Path) -> bool:
        """Whether the pattern occurs in a file that may affect this one: code, notebooks, shell scripts or settings.
        For a file in a package, that is the whole project; for a script, its folder, subfolders and parent folders."""
        inside = (near.parent / "__init__.py").exists()
        scope = self.root if inside else near.parent
        if (pattern, scope) not in self._mentioned:
            texts = chain(_texts(scope, deep=True), *(_texts(parent, deep=False) for parent in self._parents(scope)))
            self._mentioned[pattern, scope] = any(pattern.search(text) for text in texts)
        return self._mentioned[pattern, scope]

    @cached_property
    def files(self) -> dict[Path, str]:
        """The text of every file that may run or name code, below the root of the repository, or beside a file that is
        in none."""
        top = next((folder for folder in (self.root, *self.root.parents) if (folder / ".git").exists()), self.root)
        return dict(_read_below(top if top.is_dir() else top.parent, (*TEXTS, *SETTINGS), deep=top.is_dir()))

    @property
    def is_installable(self) -> bool:
        return any(path.name in ("setup.py", "setup.cfg", "pyproject.toml") for path in self.files)

    def modules_with(self, word: str) -> Iterator[Module]:
        """The modules of the repository whose text contains a word."""
        for path, text in self.files.items():
            if path.suffix in (".py", ".ipynb") and word in text and (module := self.read(path)) is not None:
                yield module

    def configures(self, word: str) -> bool:
        """Whether settings or shell scripts of the repository contain a word."""
        pattern = re.compile(rf"\b{re.escape(word)}\b")
        return any(path.suffix in SETTINGS and pattern.search(text) for path, text in self.files.items())

    def _parents(self, folder: Path) -> list[Path]:
        above = [parent for parent in folder.parents if parent == self.root or self.root in parent.parents]
        return above if folder != self.root else []

    def imported_by(self, module: Module) -> list[Module]:
        """The modules of this project that a module imports, directly or indirectly, itself first."""
        if module not in self._imports:
            queue = self._imports[module] = [module]
            for importer in queue:
                queue += [other for other in self._imports_of(importer) if other not in queue][
                    : MOST_MODULES - len(queue)
                ]
        return self._imports[module]

    def _imports_of(self, module: Module) -> list[Module]:
        """The modules of this project that a module imports directly."""
        if module not in self._direct:
            targets = (self._imported(module, name, RE_EXPORTS) for name in (*module.imports, *module.relative))
            self._direct[module] = list(dict.fromkeys(target.module for target in targets if target is not None))
        return self._direct[module]

    def importers(self, module: Module) -> list[Module]:
        """The modules that import a module directly, or may do so by a search path that can't be seen here, without
        tests."""
        if module not in self._importers:
            place = module.path.parent if module.path.name == "__init__.py" else module.path.with_suffix("")
            self._importers[module] = [
                other
                for other in self.modules_with(place.name)
                if other is not module and not other.is_test and self._may_import(other, module, place)
            ]
        return self._importers[module]

    def _may_import(self, other: Module, module: Module, place: Path) -> bool:
        for level, dotted in other.targets():
            parts = tuple(dotted.split("."))
            if parts[-1] == place.name:
                found = self.file(other.path, level, dotted)
                if found == module.path or (found is None and place.parts[-len(parts) :] == parts):
                    return True
        return False

    def namesakes(self, module: Module) -> list[Module]:
        """The other modules in a file of the same name."""
        paths = (path for path in self.files if path.name == module.path.name and path != module.path)
        return [other for path in paths if (other := self.read(path)) is not None]

    def definition(self, module: Module, node, depth: int = RE_EXPORTS) -> Definition | None:
        """The function, class or module of this project that a name or dotted name refers to, or None."""
        if isinstance(node, ast.Name):
            if node.id in module.definitions:
                return Definition(module, module.definitions[node.id])
            return self._imported(module, node.id, depth)
        if isinstance(node, ast.Attribute):
            full = module.name(node)
            if full and (whole := self._at(module, 0, *full.rpartition(".")[::2], depth)):
                return whole
            outer = self.definition(module, node.value, depth)
            if outer and outer.node is outer.module.tree:
                return self._of(outer.module, node.attr, depth)
        return None

    def method(self, cls: Definition, name: str) -> Definition | None:
        """A method of a class, or of its first base class in this project that has one."""
        for above in self.ancestry(cls):
            for node in above.node.body:
                if isinstance(node, FUNCTIONS) and node.name == name:
                    return Definition(above.module, node)
        return None

    def methods_named(self, module: Module, name: str) -> list[Definition]:
        """The methods of this name in a module, in the modules of the project that it imports, and in its folder."""
        near = dict.fromkeys([*self.imported_by(module)[:NEAR], *self.beside(module)])
        return [
            Definition(other, node)
            for other in near
            for node in other.nodes[ast.FunctionDef]
            if node.name == name and isinstance(other.parents[node], ast.ClassDef)
        ]

    def beside(self, module: Module) -> list[Module]:
        """The modules in a module's folder, at most `NEAR`."""
        folder = module.path.parent
        if folder not in self._beside:
            paths = sorted(folder.glob("*.py"))[:NEAR]
            self._beside[folder] = [other for path in paths if (other := self.read(path)) is not None]
        return self._beside[folder]

    def starred(self, module: Module) -> list[Module]:
        """The modules of this project from which a module imports everything."""
        paths = (self.file(module.path, 0, star) for star in module.stars)
        return [other for path in paths if path is not None and (other := self.read(path)) is not None]

    def ancestry(self, cls: Definition) -> list[Definition]:
        """A class and its base classes in this project, nearest first."""
        line = [cls]
        for below in line:
            for base in below.node.bases:
                above = self.definition(below.module, base)
                if above is not None and isinstance(above.node, ast.ClassDef) and above not in line:
                    line.append(above)
        return line

    def _imported(self, module: Module, name: str, depth: int) -> Definition | None:
        if name in module.relative:
            return self._at(module, *module.relative[name], depth)
        if name in module.imports:
            return self._at(module, 0, *module.imports[name].rpartition(".")[::2], depth)
        for star in module.stars:
            if other := self._at(module, 0, star, name, depth):
                return other
        return None

    def _at(self, module: Module, level: int, package: str, name: str, depth: int) -> Definition | None:
        """What `from {level * "."}{package} import {name}` imports, if it is in this project."""
        for dotted in (package, f"{package}.{name}".strip(".")):
            path = self.file(module.path, level, dotted) if dotted or level else None
            other = self.read(path) if path else None
            if other is not None and dotted != package:
                return Definition(other, other.tree)
            if other is not None and other is not module and (inner := self._of(other, name, depth)):
                return inner
        return None

    def _of(self, module: Module, name: str, depth: int) -> Definition | None:
        if name in module.definitions:
            return Definition(module, module.definitions[name])
        return self._imported(module, name, depth - 1) if depth else None

    def file(self, start: Path, level: int, dotted: str) -> Path | None:
        """The file that `import {level * "."}{dotted}` reads, in a file at `start`, if it is in this project."""
        return self._file(start.parent, level, dotted)

    def _find(self, folder: Path, level: int, dotted: str) -> Path | None:
        folders = [folder, *folder.parents[: ABOVE - 1]]
        bases = folders[level - 1 : level] if level else folders
        for base in bases:
            target = base.joinpath(*dotted.split(".")) if dotted else base
            beside = [target.with_name(f"{target.name}.py")] if target.name else []  # "." has no name
            for path in (*beside, target / "__init__.py"):
                with suppress(OSError):  # the name may be too long
                    if path.is_file():
                        return path
            if not level and base == self.root:
                break
        return None


def _texts(folder: Path, *, deep: bool) -> Iterator[str]:
    return (text for _, text in _read_below(folder, TEXTS, deep=deep))


def _read_below(folder: Path, suffixes: tuple[str, ...], *, deep: bool) -> Iterator[tuple[Path, str]]:
    for here, names in folders_below(folder, skip=lambda below: not deep):
        for path in (here / name for name in names):
            if path.suffix in suffixes or NAMES.search(path.name):
                with suppress(OSError):
                    if path.is_file() and path.stat().st_size <= LARGEST:  # a pipe would be waited for
                        yield path, path.read_text(errors="replace")


def root_of(path: Path, top: Path) -> Path:
    """The root of the project that a file belongs to: the nearest parent folder that is marked as one, or `top`."""
    for folder in path.parents:
        if folder == top or any((folder / name).exists() for name in TOP):
            return folder
    return top
