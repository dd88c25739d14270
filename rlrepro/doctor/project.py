"""The project that a file belongs to: its modules, their imports, and the definitions behind names."""

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rlrepro.doctor.ast_index import FUNCTIONS, MAX_CHARACTERS, Module
from rlrepro.doctor.file_walk import folders_below
from rlrepro.doctor.versions import Versions

JOBS = (".sh", ".bash", ".bat", ".sbatch", ".slurm", ".pbs", ".job", ".sub")
TEXTS = (".py", ".ipynb", ".yaml", ".yml", ".toml", ".cfg", ".env", ".md", ".rst", *JOBS)
NAMES = re.compile("Dockerfile|Makefile|sbatch|slurm")
SETTINGS = (".sh", ".yaml", ".yml", ".toml", ".cfg", ".json", ".gin")  # these may name the scripts that run
ROOT_MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
MAX_PARENTS = 8  # parent folders that are searched for an import
MAX_NEARBY = 30  # modules searched for a method
MAX_MODULES = 100  # followed from one module
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

    def mentions(self, pattern: re.Pattern, path: Path) -> bool:
        """Whether the pattern occurs in a file that may affect this one: code, notebooks, shell scripts or settings.
        For a file in a package, that is the whole project; for a script, its folder, subfolders and parent folders."""
        in_package = (path.parent / "__init__.py").exists()
        scope = self.root if in_package else path.parent
        if (pattern, scope) not in self._mentioned:
            texts = chain(_texts(scope, deep=True), *(_texts(parent, deep=False) for parent in self._parents(scope)))
            self._mentioned[pattern, scope] = any(pattern.search(text) for text in texts)
        return self._mentioned[pattern, scope]

    @cached_property
    def files(self) -> dict[Path, str]:
        """The text of every file that may run or name code, below the root of the repository. For a single file
        outside of a repository, only its folder is read."""
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
        parents = [parent for parent in folder.parents if parent == self.root or self.root in parent.parents]
        return parents if folder != self.root else []

    def imported_by(self, module: Module) -> list[Module]:
        """The modules of this project that a module imports, directly or indirectly, itself first."""
        if module not in self._imports:
            queue = self._imports[module] = [module]
            for importer in queue:
                queue += [imported for imported in self._imports_of(importer) if imported not in queue][
                    : MAX_MODULES - len(queue)
                ]
        return self._imports[module]

    def _imports_of(self, module: Module) -> list[Module]:
        """The modules of this project that a module imports directly."""
        if module not in self._direct:
            targets = (self._imported(module, name, RE_EXPORTS) for name in (*module.imports, *module.relative))
            self._direct[module] = list(dict.fromkeys(target.module for target in targets if target is not None))
        return self._direct[module]

    def importers(self, module: Module) -> list[Module]:
        """The modules, except tests, that import a module directly, or may do so through a search path that can't be
        seen here."""
        if module not in self._importers:
            target = module.path.parent if module.path.name == "__init__.py" else module.path.with_suffix("")
            self._importers[module] = [
                importer
                for importer in self.modules_with(target.name)
                if importer is not module and not importer.is_test and self._may_import(importer, module, target)
            ]
        return self._importers[module]

    def _may_import(self, importer: Module, module: Module, target: Path) -> bool:
        for level, dotted in importer.targets():
            parts = tuple(dotted.split("."))
            if parts[-1] == target.name:
                resolved = self.file(importer.path, level, dotted)
                if resolved == module.path or (resolved is None and target.parts[-len(parts) :] == parts):
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
            full_name = module.name(node)
            if full_name and (target := self._import(module, 0, *full_name.rpartition(".")[::2], depth)):
                return target
            outer = self.definition(module, node.value, depth)
            if outer and outer.node is outer.module.tree:
                return self._member(outer.module, node.attr, depth)
        return None

    def method(self, cls: Definition, name: str) -> Definition | None:
        """A method of a class, or of its first base class in this project that has one."""
        for ancestor in self.ancestry(cls):
            for node in ancestor.node.body:
                if isinstance(node, FUNCTIONS) and node.name == name:
                    return Definition(ancestor.module, node)
        return None

    def methods_named(self, module: Module, name: str) -> list[Definition]:
        """The methods of this name in a module, in the modules of the project that it imports, and in its folder."""
        modules = dict.fromkeys([*self.imported_by(module)[:MAX_NEARBY], *self.beside(module)])
        return [
            Definition(mod, node)
            for mod in modules
            for node in mod.nodes[ast.FunctionDef]
            if node.name == name and isinstance(mod.parents[node], ast.ClassDef)
        ]

    def beside(self, module: Module) -> list[Module]:
        """The modules in a module's folder, at most `MAX_NEARBY`."""
        folder = module.path.parent
        if folder not in self._beside:
            paths = sorted(folder.glob("*.py"))[:MAX_NEARBY]
            self._beside[folder] = [other for path in paths if (other := self.read(path)) is not None]
        return self._beside[folder]

    def starred(self, module: Module) -> list[Module]:
        """The modules of this project from which a module imports everything."""
        paths = (self.file(module.path, 0, star) for star in module.stars)
        return [other for path in paths if path is not None and (other := self.read(path)) is not None]

    def ancestry(self, cls: Definition) -> list[Definition]:
        """A class and its base classes in this project, nearest first."""
        classes = [cls]
        for derived in classes:
            for base in derived.node.bases:
                base_class = self.definition(derived.module, base)
                if base_class is not None and isinstance(base_class.node, ast.ClassDef) and base_class not in classes:
                    classes.append(base_class)
        return classes

    def _imported(self, module: Module, name: str, depth: int) -> Definition | None:
        if name in module.relative:
            return self._import(module, *module.relative[name], depth)
        if name in module.imports:
            return self._import(module, 0, *module.imports[name].rpartition(".")[::2], depth)
        for star in module.stars:
            if definition := self._import(module, 0, star, name, depth):
                return definition
        return None

    def _import(self, module: Module, level: int, package: str, name: str, depth: int) -> Definition | None:
        """What `from {level * "."}{package} import {name}` imports, if it is in this project."""
        for dotted in (package, f"{package}.{name}".strip(".")):
            path = self.file(module.path, level, dotted) if dotted or level else None
            other = self.read(path) if path else None
            if other is not None and dotted != package:
                return Definition(other, other.tree)
            if other is not None and other is not module and (member := self._member(other, name, depth)):
                return member
        return None

    def _member(self, module: Module, name: str, depth: int) -> Definition | None:
        if name in module.definitions:
            return Definition(module, module.definitions[name])
        return self._imported(module, name, depth - 1) if depth else None

    def file(self, start: Path, level: int, dotted: str) -> Path | None:
        """The file that `import {level * "."}{dotted}` reads, in a file at `start`, if it is in this project."""
        return self._file(start.parent, level, dotted)

    def _find(self, folder: Path, level: int, dotted: str) -> Path | None:
        folders = [folder, *folder.parents[: MAX_PARENTS - 1]]
        bases = folders[level - 1 : level] if level else folders
        for base in bases:
            target = base.joinpath(*dotted.split(".")) if dotted else base
            candidates = [target.with_name(f"{target.name}.py")] if target.name else []  # "." has no name
            for path in (*candidates, target / "__init__.py"):
                with suppress(OSError):  # the name may be too long
                    if path.is_file():
                        return path
            if not level and base == self.root:
                break
        return None


def _texts(folder: Path, *, deep: bool) -> Iterator[str]:
    return (text for _, text in _read_below(folder, TEXTS, deep=deep))


def _read_below(folder: Path, suffixes: tuple[str, ...], *, deep: bool) -> Iterator[tuple[Path, str]]:
    for current, names in folders_below(folder, skip=lambda _: not deep):
        for path in (current / name for name in names):
            if path.suffix in suffixes or NAMES.search(path.name):
                with suppress(OSError):
                    if path.is_file() and path.stat().st_size <= MAX_CHARACTERS:  # reading a pipe would block
                        yield path, path.read_text(errors="replace")


def root_of(path: Path, top: Path) -> Path:
    """The root of the project that a file belongs to: the nearest parent folder that is marked as one, or `top`."""
    for folder in path.parents:
        if folder == top or any((folder / name).exists() for name in ROOT_MARKERS):
            return folder
    return top
