"""Which release of a library a project uses: what it pins, else what is installed here."""

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rlrepro.project import tomllib

PINNING = ("requirements*.txt", "requirements*.lock", "environment.y*ml")


class Versions(dict):
    """Releases by library: what the project pins, else what is installed here if the project allows it, else None."""

    def __init__(self, pinned=()):
        super().__init__(pinned)
        self.allowed: dict[str, SpecifierSet] = {}
        self._installed = set()

    def __missing__(self, name: str) -> Version | None:
        try:
            found = Version(metadata.version(name))
        except (metadata.PackageNotFoundError, InvalidVersion):
            found = None
        if found is not None and not self.allowed.get(name, SpecifierSet()).contains(found, prereleases=True):
            found = None
        self[name] = found
        self._installed.add(name)
        return found

    def told(self, name: str) -> str:
        """A library with its release, and where that is known from."""
        return f"{name} {self[name]}{' (installed here)' if name in self._installed else ''}"


def versions_of(paths) -> Versions:
    """What the files of a project pin with ==, in the folders of these paths."""
    found = Versions()
    for path in map(Path, paths):
        folder = path if path.is_dir() else path.parent
        for line in _requirements(folder):
            try:
                requirement = Requirement(line)
                pins = [each.version for each in requirement.specifier if each.operator == "=="]
                if pins:
                    found[canonicalize_name(requirement.name)] = Version(pins[0])
                elif requirement.specifier:
                    found.allowed[canonicalize_name(requirement.name)] = requirement.specifier
            except (InvalidRequirement, InvalidVersion):
                continue
    return found


def _requirements(folder: Path) -> list[str]:
    lines = []
    for pattern in PINNING:
        for path in sorted(folder.glob(pattern)):
            try:
                text = path.read_text(errors="replace")
            except OSError:
                continue
            lines += [re.split(r"\s+#|\s+--", line.strip().lstrip("- "))[0] for line in text.splitlines()]
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(errors="replace"))
        lines += [str(each) for each in project.get("project", {}).get("dependencies", [])]
    except (OSError, tomllib.TOMLDecodeError, AttributeError, TypeError):
        pass
    return lines
