"""The releases that a project pins in requirements, setup files, environments, lock files, Dockerfiles and scripts."""

import fnmatch
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rlrepro.doctor.file_walk import folders_below

FILES = (
    "*requirements*.txt",
    "*requirements*.in",
    "requirements*.lock",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "*env*.y*ml",
    "conda*.y*ml",
    "*.lock",
    "Pipfile",
    "*Dockerfile*",
    "*.dockerfile",
    "install*.sh",
)
MAX_BYTES = 4 * 2**20  # bytes; larger files are skipped
# Patterns by kind of file. The group `spec` is a specifier or a version.
VERSION = r"[0-9][\w.*+!-]*"
REQUIREMENT = r"(?<![\w./-]){name}(?:\[[\w, -]*\])?\s*(?P<spec>(?:(?:===|==|~=|!=|>=|<=|>|<)\s*{version}\s*,?\s*)+)"
CONDA = r"^\s*-\s*(?:[\w-]+::)?{name}=(?P<spec>{version})"
POETRY = r"^\s*\"?{name}\"?\s*=\s*(?:\{{\s*version\s*=\s*)?\"(?P<spec>[^\"]*)\""
LOCKED = r"name = \"{name}\"\s*\nversion = \"(?P<spec>{version})\""


def pins_below(root: Path, libraries: Collection[str]) -> Iterator[tuple[Path, dict[str, SpecifierSet]]]:
    """(file, specifier by library) for each file below a folder that pins one of these libraries."""
    for folder, names in folders_below(root):
        for name in names:
            is_known = any(fnmatch.fnmatch(name.lower(), pattern.lower()) for pattern in FILES)
            if is_known and (specifiers := _specifiers(folder / name, libraries)):
                yield folder / name, specifiers


def _specifiers(path: Path, libraries: Collection[str]) -> dict[str, SpecifierSet]:
    try:
        text = path.read_text(errors="replace") if path.stat().st_size <= MAX_BYTES else ""
    except OSError:
        return {}
    text = re.sub(r"(^|\s)#.*", "", text)
    return {name: specifier for name in libraries if (specifier := specifier_in(text, name)) is not None}


def specifier_in(text: str, library: str) -> SpecifierSet | None:
    """The first specifier of a library in a text in any of these formats, or None."""
    name = re.sub(r"[-_.]+", "[-_.]+", library)
    for pattern in (LOCKED, REQUIREMENT, CONDA, POETRY):
        if match := re.search(pattern.format(name=name, version=VERSION), text, re.MULTILINE | re.IGNORECASE):
            try:
                return SpecifierSet(_as_specifier(match["spec"]))
            except InvalidSpecifier:
                continue
    return None


def _as_specifier(text: str) -> str:
    """Poetry's and conda's notation as pip's: ^1.2 becomes >=1.2,<2, and a bare version becomes ==."""
    text = text.strip().rstrip(",")
    if text.startswith("^"):
        major, *rest = text[1:].split(".")
        upper = f"<{int(major) + 1}" if int(major or 0) else f"<0.{int(rest[0]) + 1}" if rest else "<1"
        return f">={text[1:]},{upper}"
    if text.startswith("~") and not text.startswith("~="):
        return f"~={text[1:]}"
    return f"=={text}" if text[:1].isdigit() else "" if text == "*" else text
