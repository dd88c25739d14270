"""Whether an installed folder still holds what its wheels contained, according to the RECORD of each wheel."""

import base64
import csv
import hashlib
from collections.abc import Iterable
from importlib import metadata
from importlib.machinery import all_suffixes
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version


def find_damage(folder: Path, releases: Iterable[tuple[str, str]]) -> str | None:
    """The first difference between `folder` and the wheels of these (name, version), or None if there is none.

    Every file is hashed (0.1 s for the largest release). A module that is in no wheel counts too, because it could be
    imported.
    """
    wheels = {
        (canonicalize_name(wheel.metadata["Name"] or ""), Version(wheel.metadata["Version"] or "0")): wheel
        for wheel in metadata.distributions(path=[str(folder)])
    }
    wheel_files = set()
    for name, version in releases:
        wheel = wheels.get((name, Version(version)))
        record = wheel.read_text("RECORD") if wheel else None  # from Python 3.12 on, `files` leaves out missing ones
        if not record:
            return f"{name} {version} or its list of files is missing"
        for file, digest, _ in csv.reader(record.splitlines()):
            path = Path(wheel.locate_file(file))
            if digest and (problem := _problem(path, *digest.split("="))):
                return f"{path} {problem}"
            wheel_files.add(path)
    paths = (path for path in folder.rglob("*") if path.suffix in all_suffixes())
    modules = {path for path in paths if path.parent.name != "__pycache__"}
    return next((f"{path} is not part of its wheel" for path in sorted(modules - wheel_files)), None)


def _problem(path: Path, algorithm: str, expected: str) -> str | None:
    try:
        digest = hashlib.new(algorithm, path.read_bytes()).digest()
    except OSError as error:
        return f"can't be read ({error.strerror})"
    matches = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == expected
    return None if matches else "differs from the file in its wheel"
