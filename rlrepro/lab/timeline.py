"""timeline(name, versions, fn): the same measurement under several releases."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from rlrepro.lab.machine import this_machine
from rlrepro.lab.releases import Release


@dataclass(frozen=True)
class TimelinePoint:
    """The result of `fn` under one release, or the error."""

    version: str
    value: object = None
    error: str | None = None


def timeline(
    name: str,
    versions: Iterable[str],
    fn: Callable,
    /,
    *args,
    running: Iterable[Release] = (),
    at_once: int = 1,
    **kwargs,
) -> list[TimelinePoint]:
    """Run `fn(*args, **kwargs)` under `name==version` for each version, in the given order.

    If a release can't be installed or imported, or `fn` fails under it, its point has the error; the others still run.
    Releases of `name` in `running` are used and stay open; all others are started and closed here. `at_once` releases
    run in parallel and share the cores: use it only for results that this can't change, such as bytes. An interrupt
    ends the processes of all of them. Raises ValueError if `at_once` is below 1.
    """
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, found {at_once!r}")
    threads = max(1, this_machine().cores // at_once)
    releases = {release.version: release for release in running if release.name == canonicalize_name(name)}
    started = list(releases.values())
    environment = {"OMP_NUM_THREADS": str(threads)} if at_once > 1 else {}

    def measure(version: str) -> TimelinePoint:
        try:
            if (release := releases.get(version)) is not None:
                return TimelinePoint(version, release.run(fn, *args, **kwargs))
            with Release(f"{name}=={version}", environment=environment) as release:
                started.append(release)
                return TimelinePoint(version, release.run(fn, *args, **kwargs))
        except (Exception, SystemExit) as error:
            return TimelinePoint(version, error=f"{type(error).__name__}: {error}")

    with ThreadPoolExecutor(at_once) as pool:
        try:
            return list(pool.map(measure, versions))
        except BaseException:  # an interrupt: otherwise, the pool would wait for what is running
            pool.shutdown(wait=False, cancel_futures=True)
            for release in started:
                release.close()
            raise
