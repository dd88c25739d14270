"""The scripts that pages bring along, so that a reader's browser asks no other server for anything."""

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path

from rlrepro.lab.overlays import cache_folder

PINS = Path(__file__).with_name("scripts.toml")


class ScriptUnavailable(RuntimeError):
    """A script is not in the cache and could not be fetched."""


def scripts() -> dict[str, Path]:
    """The file of each script, by name; fetched through npm into the cache folder where it is not there yet.

    Raises ScriptUnavailable, with what to do, where that fails or the package is not the pinned one.
    """
    with PINS.open("rb") as file:
        return {name: _script(name, **pin) for name, pin in tomllib.load(file).items()}


def _script(name: str, package: str, version: str, sha512: str, file: str) -> Path:
    kept = cache_folder() / "scripts" / f"{name}-{version}.js"
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        archive = _pack(f"{package}@{version}", Path(folder))
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != sha512:
            raise ScriptUnavailable(
                f"npm sent {package} {version} with another hash than {PINS.name} has; do not use it"
            )
        with tarfile.open(archive) as packed, (Path(folder) / kept.name).open("wb") as target:
            shutil.copyfileobj(packed.extractfile(file), target)
        (Path(folder) / kept.name).replace(kept)
    return kept


def _pack(requirement: str, folder: Path) -> Path:
    """npm's archive of a package, downloaded to the folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise ScriptUnavailable(f"{requirement} has to be fetched once, with npm, which is not here: install Node.js")
    command = [npm, "pack", requirement, "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no reason given"]
        raise ScriptUnavailable(f"npm could not fetch {requirement}; try again with a network. npm said: {reason[0]}")
    (archive,) = folder.glob("*.tgz")
    return archive
