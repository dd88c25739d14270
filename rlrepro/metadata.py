"""The project's own metadata: as installed or, in a checkout that is not installed, from pyproject.toml."""

import importlib.metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def address() -> str:
    """The address of the repository; empty if there is none."""
    try:
        listed = importlib.metadata.metadata("rlrepro").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        return _project_table().get("urls", {}).get("Repository", "")
    return dict(url.split(", ") for url in listed).get("Repository", "")


def requirements(extra: str = "course") -> list[str]:
    """The requirements of rlrepro with one of its extras on this machine, as lines for pip."""
    declared, extras, lines = [Requirement(text) for text in _all_requirements()], ["", extra], {}
    for name in extras:  # the list grows: an extra may include others
        for requirement in declared:
            marker = requirement.marker
            if (marker.evaluate({"extra": name}) if marker else not name) is False:
                continue
            if requirement.name == "rlrepro":
                extras += sorted(requirement.extras - set(extras))
            else:
                lines[str(requirement).partition(";")[0]] = True
    return list(lines)


def advice(feature: str, extra: str, error: ModuleNotFoundError) -> str | None:
    """What to install for `feature`; None if the extra does not bring the missing package."""
    package = canonicalize_name((error.name or "").partition(".")[0])
    if package not in {canonicalize_name(Requirement(line).name) for line in requirements(extra)}:
        return None
    return f"{feature} needs {package}: pip install 'rlrepro[{extra}]'"


def _all_requirements() -> list[str]:
    """All requirements; a marker names the extra that one belongs to."""
    try:
        return importlib.metadata.requires("rlrepro") or []
    except importlib.metadata.PackageNotFoundError:
        project = _project_table()
    extras = project.get("optional-dependencies", {}).items()
    return project["dependencies"] + [f'{line}; extra == "{extra}"' for extra, lines in extras for line in lines]


def _project_table() -> dict:
    return tomllib.loads(PYPROJECT.read_text())["project"]
