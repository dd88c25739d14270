"""What a machine without a network needs to run the course from a checkout: wheels, and overlays for its Python.

It is a Linux machine on x86-64 that has torch. What rlrepro requires is followed as it is installed here, and carried
in the version installed here, unless the other machine has one that will do.
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
LEFT_OUT = {  # and why
    "torch": "the machine's own, which fits its card",
    "jupyterlab": "where a reader opens notebooks",
    "jupyterlab-widgets": "its sliders",
    "widgetsnbextension": "sliders in another browser's page",
    "jedi": "completes what a reader types",
    "debugpy": "stops where a reader wants to look",
    "mujoco-studio": "a window with robots in it",
    "virtualenv": "tianshou names it and imports it nowhere",
    "aiohttp": "papermill names it for Python 3.12 and imports it nowhere",
}


class CannotCarry(RuntimeError):
    """What is asked for can't be carried to the other machine."""


def read_packages(file: Path) -> dict[str, str]:
    """The version of each package of a machine, from what `pip list --format=freeze` printed there.

    Raises CannotCarry, naming the line, for another text.
    """
    found = {}
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                name, found_version = parse_release(line.strip())
            except ValueError:
                raise CannotCarry(
                    f"{file}, line {number}: expected 'name==version', found {line!r}. Make the file there with "
                    "python3 -m pip list --format=freeze, or remove the line"
                ) from None
            found[name] = found_version
    return found


def closure(wanted: Iterable[str], python: str, there: Mapping[str, str]) -> dict[str, str]:
    """The version, as installed here, of each package that `wanted` needs on that Python and that is not `there` in a
    version that will do.

    Raises CannotCarry where torch is there in another version, and for a package that is not installed here.
    """
    target = LINUX | {"python_version": python, "python_full_version": f"{python}.0"}
    carried, seen = {}, set()
    waiting = [("rlrepro", "", text) for text in wanted]
    while waiting:
        by, extra, text = waiting.pop(0)  # what rlrepro itself needs comes first, also in an error
        needed = Requirement(text)
        name = canonicalize_name(needed.name)
        if needed.marker and not needed.marker.evaluate(target | {"extra": extra}):
            continue
        will_do = name in there and needed.specifier.contains(there[name], prereleases=True)
        if name == "torch" and name in there and not will_do:
            raise CannotCarry(
                f"{by} needs {name}{needed.specifier}, and the machine has {there[name]}: change it there"
            )
        if will_do or name in LEFT_OUT:
            continue
        try:
            carried[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise CannotCarry(
                f"{by} needs {name}{needed.specifier} on Python {python}, and it is not installed here. "
                f"Run: python -m pip install '{name}{needed.specifier}'"
            ) from None
        for extra in {"", *needed.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(name, extra, text) for text in metadata.requires(name) or ()]
    return carried


def carry(folder: Path, python: str, there: Mapping[str, str] | None = None) -> None:
    """Fill `folder` with `cache/`, the overlays, and `wheels/`, for a machine that has `there`.

    Raises CannotCarry, and ReleaseUnavailable where an overlay can't be fetched.
    """
    wheels = folder / "wheels"
    if wheels.is_dir() and any(wheels.iterdir()):
        raise CannotCarry(f"{wheels} is not empty: remove it, or name another folder")
    carried = closure(requirements(), python, there or {})
    for release in known_releases():
        install(release, python, folder / "cache")
    pins = [f"{name}=={version}" for name, version in sorted(carried.items())]
    try:
        done = pip("download", "--dest", str(wheels), *pins, python=python)
    except TookTooLong as error:
        raise CannotCarry(f"wheels can't be fetched into {wheels}: {error} Remove that folder first") from error
    if done.returncode == 0:
        return
    missing = re.search(r"No matching distribution found for (\S+)", done.stderr)
    if "connection broken" in done.stderr:
        reason = "the package index could not be reached. Carry again when online"
    elif missing:
        reason = (
            f"there is no wheel of {missing[1]} for Python {python} on Linux of x86-64. "
            "Install a version of it here that has one, and carry again"
        )
    else:
        reason = "pip failed"
    raise CannotCarry(f"wheels can't be fetched into {wheels}: {reason}\npip said: {last_error(done.stderr)}")


def commands(folder: str) -> list[str]:
    """What is to be run over there, in the checkout that `folder` lies in: once, and for each run."""
    here = shlex.quote(folder)
    return [
        f"python3 -m pip install --no-index --no-deps --target {here}/site {here}/wheels/*.whl",
        f"PYTHONPATH={here}/site:. RLREPRO_CACHE=$PWD/{here}/cache "
        "python3 -m rlrepro reproduce --device cuda --profile full",
    ]
