"""The scripts that pages bring along, so that a reader's browser contacts no other server."""

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path

from rlrepro.lab.limits import NPM_SECONDS, TookTooLong, locked, waiting_for
from rlrepro.lab.overlays import cache_folder

PINS = Path(__file__).with_name("scripts.toml")


class ScriptUnavailable(RuntimeError):
    """A script is not in the cache and could not be fetched."""


def scripts() -> list[Path]:
    """The files that pages need, fetched through npm into the cache folder the first time.

    Raises ScriptUnavailable, with what to do, if that fails or a package is not the pinned one.
    """
    with PINS.open("rb") as file:
        return [path for pin in tomllib.load(file).values() for path in _unpacked(**pin)]


def _unpacked(package: str, version: str, sha512: str, files: dict[str, str]) -> list[Path]:
    folder = cache_folder() / "scripts" / f"{package.replace('/', '-')}-{version}"
    paths = [folder / name for name in files]
    if not _all_exist(paths):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as partial, locked(f"{folder}.lock", f"fetches {package}"):
            if not _all_exist(paths):  # another process was not faster
                _unpack(f"{package}@{version}", sha512, files, Path(partial) / "files")
                shutil.rmtree(folder, ignore_errors=True)
                (Path(partial) / "files").rename(folder)
    return paths


def _all_exist(files: list[Path]) -> bool:
    return all(file.exists() and file.stat().st_size for file in files)


def _unpack(requirement: str, sha512: str, files: dict[str, str], target: Path) -> None:
    target.mkdir()
    archive = _pack(requirement, target.parent)
    if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != sha512:
        raise ScriptUnavailable(f"npm sent {requirement} with another hash than in {PINS.name}; do not use it")
    with tarfile.open(archive) as packed:
        for name, member in files.items():
            with (target / name).open("wb") as file:
                shutil.copyfileobj(packed.extractfile(member), file)


def _pack(requirement: str, folder: Path) -> Path:
    """The archive of a package that npm downloads to the folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise ScriptUnavailable(f"{requirement} has to be fetched once, with npm, which was not found: install Node.js")
    command = [npm, "pack", requirement, "--silent", "--pack-destination", str(folder)]
    advice = "The registry is too slow or does not answer: try again, or name another one in npm_config_registry."
    try:
        with waiting_for(f"npm pack {requirement}", NPM_SECONDS, advice) as allowed:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL, timeout=allowed
            )
    except TookTooLong as error:
        raise ScriptUnavailable(str(error)) from error
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no reason given"]
        raise ScriptUnavailable(f"npm could not fetch {requirement}; try again when online. npm said: {reason[0]}")
    archives = list(folder.glob("*.tgz"))
    if len(archives) != 1:
        raise ScriptUnavailable(f"npm reported that it fetched {requirement}, but left {len(archives)} archives")
    return archives[0]
