"""timeline(name, versions, fn): one measurement per release."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rlrepro.lab.machine import this_machine
from rlrepro.lab.releases import Release


@dataclass(frozen=True)
class TimelinePoint:
    """What `fn` returned under one release, or why it could not run there."""

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
    """`fn(*args, **kwargs)` under `name==version` for each version, in the order given.

    A release that can't be installed or imported, or in which `fn` fails, says why in its point; the others still
    run. Those `running` are used and stay open, the others start and end here. `at_once` releases run side by side,
    sharing the cores: only for what company can't change, such as bytes.
    """
    threads = max(1, this_machine().cores // at_once)
    open_already = {release.version: release for release in running}
    environment = {"OMP_NUM_THREADS": str(threads)} if at_once > 1 else {}

    def measure(version: str) -> TimelinePoint:
        release = open_already.get(version) or Release(f"{name}=={version}", environment=environment)
        try:
            return TimelinePoint(version, release.run(fn, *args, **kwargs))
        except Exception as error:
            return TimelinePoint(version, error=f"{type(error).__name__}: {error}")
        finally:
            if version not in open_already:
                release.close()

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(measure, versions))
