"""timeline(name, versions, fn): one measurement per release."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rlrepro.lab.releases import Release


@dataclass(frozen=True)
class TimelinePoint:
    """What `fn` returned under one release, or why it could not run there."""

    version: str
    value: object = None
    error: str | None = None


def timeline(name: str, versions: Iterable[str], fn: Callable, /, *args, **kwargs) -> list[TimelinePoint]:
    """`fn(*args, **kwargs)` under `name==version` for each version, in the order given.

    A release that can't be installed or imported, or in which `fn` fails, says why in its point; the others still run.
    """
    points = []
    for version in versions:
        with Release(f"{name}=={version}") as release:
            try:
                points.append(TimelinePoint(version, release.run(fn, *args, **kwargs)))
            except Exception as error:
                points.append(TimelinePoint(version, error=f"{type(error).__name__}: {error}"))
    return points
