"""What this project says of itself: as its metadata have it, or pyproject.toml where a checkout is not installed."""

import importlib.metadata
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def address() -> str:
    """The address of the repository; empty where none is named."""
    try:
        listed = importlib.metadata.metadata("rlrepro").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        return _checkout().get("urls", {}).get("Repository", "")
    return dict(each.split(", ") for each in listed).get("Repository", "")


def requirements() -> list[str]:
    """What rlrepro is built on, as lines for pip; those of an extra have a marker that says so."""
    try:
        return importlib.metadata.requires("rlrepro") or []
    except importlib.metadata.PackageNotFoundError:
        project = _checkout()
    extras = project.get("optional-dependencies", {}).items()
    return project["dependencies"] + [f'{each}; extra == "{extra}"' for extra, several in extras for each in several]


def _checkout() -> dict:
    return tomllib.loads(PYPROJECT.read_text())["project"]
