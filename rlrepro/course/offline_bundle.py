"""Everything that a machine without a network needs to run the course from a checkout: wheels and overlays.

The target is a Linux machine on x86-64 that has torch. Packages are bundled in the versions installed here:
rlrepro's requirements and theirs, unless the target has a version that satisfies them.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rlrepro.lab.limits import TookTooLong
from rlrepro.lab.overlays import install, known_releases, parse_release
from rlrepro.lab.pip import last_error, pip
from rlrepro.metadata import requirements

LINUX = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"}
NOT_BUNDLED = {  # and why
    "torch": "the target has its own, which fits its GPU",
    "jupyterlab": "where a reader opens notebooks",
    "jupyterlab-widgets": "its sliders",
    "widgetsnbextension": "sliders in another browser's page",
    "jedi": "completes what a reader types",
    "debugpy": "a debugger for readers",
    "mujoco-studio": "shows robots in a window",
    "virtualenv": "tianshou requires it and never imports it",
    "aiohttp": "papermill requires it for Python 3.12 and never imports it",
}


class CannotCarry(RuntimeError):
    """The bundle can't be built for that machine."""


def read_packages(file: Path) -> dict[str, str]:
    """The version of each package on a machine, from the output of `pip list --format=freeze` there.

    Raises CannotCarry, naming the line, if the file is something else.
    """
    versions = {}
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                name, version = parse_release(line.strip())
            except ValueError:
                raise CannotCarry(
                    f"{file}, line {number}: expected 'name==version', found {line!r}. Write the file there with "
                    "python3 -m pip list --format=freeze, or remove the line"
                ) from None
            versions[name] = version
    return versions


def missing_packages(required: Iterable[str], python: str, on_target: Mapping[str, str]) -> dict[str, str]:
    """The packages to bundle, with the version installed here: what `required` needs on that Python, including
    indirect requirements, except for packages that are `on_target` in a version that satisfies them.

    Raises CannotCarry if the target's torch has the wrong version, or a package is not installed here.
    """
    target = LINUX | {"python_version": python, "python_full_version": f"{python}.0"}
    bundled, seen = {}, set()
    queue = [("rlrepro", "", text) for text in required]
    while queue:
        parent, extra, text = queue.pop(0)  # breadth first, so that errors name rlrepro's own requirements first
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate(target | {"extra": extra}):
            continue
        satisfied = name in on_target and requirement.specifier.contains(on_target[name], prereleases=True)
        if name == "torch" and name in on_target and not satisfied:
            raise CannotCarry(
                f"{parent} needs {name}{requirement.specifier}, but the target has {on_target[name]}: install a "
                "matching one there"
            )
        if satisfied or name in NOT_BUNDLED:
            continue
        try:
            bundled[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise CannotCarry(
                f"{parent} needs {name}{requirement.specifier} on Python {python}, and it is not installed here. "
                f"Run: python -m pip install '{name}{requirement.specifier}'"
            ) from None
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                queue += [(name, extra, text) for text in metadata.requires(name) or ()]
    return bundled


def carry(folder: Path, python: str, on_target: Mapping[str, str] | None = None) -> None:
    """Fill `folder` with the overlays in `cache/` and with `wheels/`, for a machine that has the packages `on_target`.

    Raises CannotCarry, and ReleaseUnavailable if an overlay can't be fetched.
    """
    wheels = folder / "wheels"
    if wheels.is_dir() and any(wheels.iterdir()):
        raise CannotCarry(f"{wheels} is not empty: remove it, or choose another folder")
    bundled = missing_packages(requirements(), python, on_target or {})
    for release in known_releases():
        install(release, python, folder / "cache")
    pins = [f"{name}=={version}" for name, version in sorted(bundled.items())]
    try:
        completed = pip("download", "--dest", str(wheels), *pins, python=python)
    except TookTooLong as error:
        raise CannotCarry(f"wheels can't be fetched into {wheels}: {error} Remove that folder first") from error
    if completed.returncode == 0:
        return
    missing = re.search(r"No matching distribution found for (\S+)", completed.stderr)
    if "connection broken" in completed.stderr:
        reason = "the package index could not be reached. Try again when online"
    elif missing:
        reason = (
            f"there is no wheel of {missing[1]} for Python {python} on Linux x86-64. "
            "Install a version of it here that has one, and try again"
        )
    else:
        reason = "pip failed"
    raise CannotCarry(f"wheels can't be fetched into {wheels}: {reason}\npip said: {last_error(completed.stderr)}")


def commands(folder: str) -> list[str]:
    """The commands to run on the target, in the checkout that has `folder`: the first once, the second for each run."""
    folder = shlex.quote(folder)
    return [
        f"python3 -m pip install --no-index --no-deps --target {folder}/site {folder}/wheels/*.whl",
        f"PYTHONPATH={folder}/site:. RLREPRO_CACHE=$PWD/{folder}/cache "
        "python3 -m rlrepro reproduce --device cuda --profile full",
    ]
