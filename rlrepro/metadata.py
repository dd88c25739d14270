"""What this project says of itself: as its metadata have it, or pyproject.toml where a checkout is not installed."""

import importlib.metadata
from pathlib import Path

from packaging.requirements import Requirement

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def address() -> str:
    """The address of the repository; empty where none is named."""
    try:
        listed = importlib.metadata.metadata("rlrepro").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        return _checkout().get("urls", {}).get("Repository", "")
    return dict(each.split(", ") for each in listed).get("Repository", "")


def requirements(extra: str = "course") -> list[str]:
    """What rlrepro with one of its extras is built on, here, as lines for pip."""
    declared, extras, found = [Requirement(text) for text in _declared()], ["", extra], {}
    for name in extras:  # which grows: an extra may name others
        for each in declared:
            if (each.marker.evaluate({"extra": name}) if each.marker else not name) is False:
                continue
            if each.name == "rlrepro":
                extras += sorted(each.extras - set(extras))
            else:
                found[str(each).partition(";")[0]] = True
    return list(found)


def _declared() -> list[str]:
    """All requirements; those of an extra have a marker that says so."""
    try:
        return importlib.metadata.requires("rlrepro") or []
    except importlib.metadata.PackageNotFoundError:
        project = _checkout()
    extras = project.get("optional-dependencies", {}).items()
    return project["dependencies"] + [f'{each}; extra == "{extra}"' for extra, several in extras for each in several]


def _checkout() -> dict:
    return tomllib.loads(PYPROJECT.read_text())["project"]
