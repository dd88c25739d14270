"""Overlays: folders that hold one release of a library each, and come first on the import path.

An overlay holds only the library, without dependencies, so that two runs differ only in the library's own code.
Overlays are stored in the user's cache folder, or in RLREPRO_CACHE; overlays.toml pins the known ones with hashes. An
overlay is installed under a lock, into a temporary folder that is then renamed, so that an interrupted or concurrent
installation can't leave an incomplete one behind. Each time that it is needed, its files are compared with its wheels.
"""

import errno
import os
import shutil
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from platformdirs import user_cache_path

from rlrepro.lab.limits import TookTooLong, locked
from rlrepro.lab.pip import last_error, offered, pip
from rlrepro.lab.wheel_check import find_damage
from rlrepro.metadata import tomllib

PINS = Path(__file__).with_name("overlays.toml")
PARTIAL = ".partial-"
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # a disk or a quota that is full, or read-only


class ReleaseUnavailable(RuntimeError):
    """A release is not installed and can't be installed."""


def cache_folder() -> Path:
    """The folder for downloads: RLREPRO_CACHE, or by default a folder in the user's cache."""
    return Path(os.environ.get("RLREPRO_CACHE") or user_cache_path("rlrepro")).expanduser()


def overlay_folder(requirement: str, python: str | None = None, cache: Path | None = None) -> Path:
    """The folder of the overlay for "name==version", whether it exists or not. It is for the current Python, or for
    `python`, such as "3.12", on x86-64 Linux. `cache` is `cache_folder()` by default."""
    if python:
        system = f"cpython-{python.replace('.', '')}-linux-x86_64"
    else:
        system = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return (cache or cache_folder()) / "overlays" / system / requirement.replace("==", "-")


def parse_release(requirement: str) -> tuple[str, str]:
    """Split "tianshou==1.0.0" into ("tianshou", "1.0.0"), the name normalized. Raises ValueError for other text."""
    try:
        parsed = Requirement(requirement)
        (pin,) = parsed.specifier
        plain = not (parsed.extras or parsed.marker or parsed.url)
        if plain and pin.operator == "==" and not pin.version.endswith("*"):
            return canonicalize_name(parsed.name), pin.version
    except (InvalidRequirement, ValueError):
        pass
    raise ValueError(f"expected a release as 'name==version', for example 'tianshou==1.0.0', found {requirement!r}")


def is_installed(name: str, version: str) -> bool:
    """Whether this release is the installed one, so that no overlay is needed."""
    try:
        return Version(metadata.version(name)) == Version(version)
    except metadata.PackageNotFoundError:
        return False


def install(requirement: str, python: str | None = None, cache: Path | None = None) -> Path:
    """Install the overlay if it does not exist yet, and return its folder. For `python` and `cache`, see
    `overlay_folder`.

    Raises ReleaseUnavailable, which says what to do, if the release does not exist, can't be downloaded or is damaged.
    """
    requirement = "==".join(parse_release(requirement))
    folder = overlay_folder(requirement, python, cache)
    _install_if_missing(requirement, folder, python)
    wheels = [parse_release(line.split()[0]) for line in _pinned_lines(requirement)]
    if damage := find_damage(folder, wheels):
        raise ReleaseUnavailable(
            f"{requirement} is damaged: {damage}. Remove the folder {folder} and run again, which installs it anew"
        )
    return folder


def _install_if_missing(requirement: str, folder: Path, python: str | None) -> None:
    try:
        if folder.is_dir():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        _install(requirement, folder, python)
    except TookTooLong as error:
        raise ReleaseUnavailable(f"{requirement} is not in {folder} and can't be installed: {error}") from error
    except OSError as error:
        raise ReleaseUnavailable(
            f"{requirement} can't be installed in {folder}: {error}. Set RLREPRO_CACHE to another folder"
        ) from error


def _install(requirement: str, folder: Path, python: str | None) -> None:
    with locked(folder.with_name(f"{folder.name}.lock"), f"installs {requirement}"):
        if folder.is_dir():  # another process was faster
            return
        for leftover in folder.parent.glob(f"{PARTIAL}{folder.name}-*"):  # of an installation that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{folder.name}-", dir=folder.parent))
        try:
            _pip_install(requirement, partial, folder, python)
            partial.chmod(0o755)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def known_releases() -> dict[str, list[str]]:
    """The pinned releases, each with its requirement lines for pip."""
    with PINS.open("rb") as file:
        return {release: pins["requirements"] for release, pins in tomllib.load(file).items()}


def _pinned_lines(requirement: str) -> list[str]:
    return known_releases().get(requirement, [requirement])


def _pip_install(requirement: str, target: Path, folder: Path, python: str | None) -> None:
    requirements_file = target / "requirements.txt"
    requirements_file.write_text("\n".join(_pinned_lines(requirement)))
    completed = pip(
        "install", "--no-user", "--no-compile", "--target", str(target), "-r", str(requirements_file), python=python
    )
    if completed.returncode == 0:
        return
    name, version = parse_release(requirement)
    python_label, option = (f"Python {python}", f" --python {python}") if python else ("this Python", "")
    versions = offered(completed.stderr)
    if "do not match the hashes" in completed.stderr.lower():
        reason = "the package index sent a file whose hash is not the pinned one; do not use it."
    elif any(os.strerror(code) in completed.stderr for code in NOT_WRITTEN):
        reason = (
            f"a file could not be written. Free some space in {folder.parent} and {tempfile.gettempdir()}, or set "
            "RLREPRO_CACHE and TMPDIR to folders on another disk."
        )
    elif "No module named pip" in completed.stderr:
        reason = (
            f"{sys.executable} has no pip. Install it: python -m ensurepip, or in uv's environments uv pip install pip."
        )
    elif versions:
        reason = f"there is no version {version} for {python_label}; the newest are {', '.join(versions[-8:])}."
    else:
        reason = (
            f"the package index could not be reached, or has no {name} for {python_label}.\n"
            f"When online, run: python -m rlrepro fetch '{requirement}'{option}"
        )
    raise ReleaseUnavailable(
        f"{requirement} is not in {folder} and can't be installed: {reason}\npip said: {last_error(completed.stderr)}"
    )
