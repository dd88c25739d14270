"""Which releases of a library a project may use, judged by its pins and by the API that its code imports.

What is installed next to the doctor does not matter: it is not the project's environment.
"""

import re
from functools import cached_property
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rlrepro.doctor.ast_index import Module
from rlrepro.doctor.pins import pins_below, specifier_in

# Every release that a rule distinguishes from its neighbors, and what else ranges such as ~=0.8.1 need; newest last.
RELEASES = {
    "tianshou": "0.3.0 0.4.0 0.4.2 0.4.3 0.4.5 0.4.8 0.4.9 0.4.10 0.4.11 0.5.0 0.5.1 1.0.0 1.1.0 1.2.0 2.0.0 2.0.1",
    "torchrl": "0.2.1 0.3.1 0.4.0 0.5.0 0.6.0 0.7.0 0.7.1 0.7.2 0.8.0 0.8.1 0.9.0 0.9.1 0.9.2 0.10.0 0.10.1 0.11.0 "
    "0.11.1 0.12.0 0.13.0 0.13.1 0.13.2 0.13.3 0.14.0 0.14.1",
    "ray": "2.9.3 2.10.0 2.40.0 2.50.0 2.60.0",
}
METADATA = re.compile(r"^# /// script$((?:\n#(?: .*)?)+?)\n# ///$", re.MULTILINE)  # as in PEP 723
OF_SOURCE = re.compile(r"^__version__\s*=\s*['\"](\d+(?:\.\d+)*)['\"]", re.MULTILINE)
# API that only some releases have: a pattern for full imported names, and the releases.
ONLY_IN = {
    "tianshou": (
        (r"tianshou\.algorithm\b.*", ">=2.0"),
        (r"tianshou\.policy\b.*", "<2.0"),
        (r"tianshou\.trainer\.(on|off)policy_trainer|tianshou\.trainer\.offline_trainer", "<1.0"),
        (r"tianshou\.trainer\.(On|Off)policyTrainer|tianshou\.trainer\.OfflineTrainer", ">=0.4.8,<2.0"),
        (r"tianshou\.trainer\.(On|Off)PolicyTrainer.*", ">=2.0"),
        (r"tianshou\.(data|highlevel)\.?.*\b(CollectStats|InfoStats|highlevel.*)", ">=1.0"),
        (r"tianshou\.utils\.BasicLogger", "<1.1"),
        (r"tianshou\.env\.maenv\b.*", "<0.5"),
    ),
}


class Versions:
    """The possible releases of a library, by file. `overrides` has specifiers by library that take precedence."""

    def __init__(self, overrides: dict[str, str] | None = None, root: Path | None = None):
        self._overrides, self._root = {name: SpecifierSet(text) for name, text in (overrides or {}).items()}, root

    def all_in(self, module: Module, library: str, affected: str) -> str | None:
        """If every release that this file may use is affected, the reason as a clause (the pin or the import);
        otherwise None. `affected` is a specifier such as ">=0.4.11,<1.1"."""
        specifier, reason = self._of(module, library)
        releases = self._releases(library, specifier)
        matching = _within(releases, affected)
        return reason if reason and releases and len(matching) == len(releases) else None

    def any_in(self, module: Module, library: str, affected: str) -> bool:
        """Whether any release that this file may use is affected."""
        return bool(_within(self._releases(library, self._of(module, library)[0]), affected))

    def _of(self, module: Module, library: str) -> tuple[SpecifierSet, str]:
        """The specifier for this file, and the reason."""
        if library in self._overrides:
            return self._overrides[library], f"this is {library} {self._overrides[library]}".replace("==", "")
        specifier, reason = self._contained(module, library) or self._pinned(module, library) or (SpecifierSet(), "")
        names = sorted({*module.imports.values(), *module.stars})
        for pattern, only in ONLY_IN.get(library, ()):
            name = next((name for name in names if re.fullmatch(pattern, name)), None)
            both = specifier & SpecifierSet(only)
            if name and (subset := self._releases(library, both)) and subset != self._releases(library, specifier):
                specifier, reason = both, f"{f'{reason}, and ' if reason else ''}{name} exists only in {library} {only}"
        return specifier, reason

    def _releases(self, library: str, specifier: SpecifierSet) -> list[Version]:
        exact = [spec.version for spec in specifier if spec.operator == "==" and not spec.version.endswith("*")]
        listed = [Version(text) for text in RELEASES.get(library, "").split()]
        releases = sorted({*listed, *map(Version, exact)})
        return [release for release in releases if specifier.contains(release, prereleases=True)]

    def _contained(self, module: Module, library: str) -> tuple[SpecifierSet, str] | None:
        """The release whose source the project contains, as a fork does: its programs import that."""
        root = self._root.absolute() if self._root else None
        folders = [folder for folder in module.path.absolute().parents if root and folder.is_relative_to(root)]
        sources = (folder / library / "__init__.py" for folder in folders)
        source = next((path for path in sources if path.is_file()), None)
        match = OF_SOURCE.search(source.read_text(errors="replace")) if source else None
        return (SpecifierSet(f"=={match[1]}"), f"the project contains {library} {match[1]}") if match else None

    def _pinned(self, module: Module, library: str) -> tuple[SpecifierSet, str] | None:
        """The pin in the file itself (a notebook's `!pip install`, a script's metadata), otherwise the one in the
        nearest parent folder (an exact release before a range), otherwise the only one in the project."""
        installs = "\n".join(line for line in module.text.split("\n") if line.lstrip().startswith("pass  # "))
        if (specifier := specifier_in(installs, library)) is not None:
            return specifier, f"a cell installs {library}{specifier}"
        if (metadata := METADATA.search(module.text)) and (specifier := specifier_in(metadata[1], library)) is not None:
            return specifier, f"the script requires {library}{specifier}"
        pins = [(file, specifiers[library]) for file, specifiers in self._pins if library in specifiers]
        for folder in module.path.absolute().parents:
            if nearest := [(file, specifier) for file, specifier in pins if file.parent == folder]:
                file, specifier = next((pin for pin in nearest if "==" in str(pin[1])), nearest[0])
                return specifier, f"{file.name} requires {library}{specifier}"
        if len({str(specifier) for _, specifier in pins}) == 1:
            return pins[0][1], f"{pins[0][0].name} requires {library}{pins[0][1]}"
        return None

    @cached_property
    def _pins(self) -> list[tuple[Path, dict[str, SpecifierSet]]]:
        return list(pins_below(self._root.absolute(), RELEASES)) if self._root else []


def _within(releases: list[Version], affected: str) -> list[Version]:
    return [release for release in releases if SpecifierSet(affected).contains(release, prereleases=True)]
