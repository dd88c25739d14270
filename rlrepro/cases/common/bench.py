"""The bench on which a case is measured: one run of its notebook, with its settings, device and records."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rlrepro.evidence.records import Record, RecordBook, Records
from rlrepro.lab.garbage_collector import freeze_imports
from rlrepro.lab.machine import resolve_device
from rlrepro.lab.releases import Release
from rlrepro.lab.timing import Comparison


class Bench:
    """One run of a case's notebook. `case` is its package, which defines `SETTINGS`, `RECORDS` and `CHAPTER`.

    Attributes: `settings` (of the profile, on this device), `device`, `seed`, and `book`, which writes the records to
    `OUT/CHAPTER.jsonl`. Raises NoGPUError if the machine has no such device, and KeyError for an unknown profile.
    """

    def __init__(self, case, *, profile: str, device: str, seed: int, out: str | Path):
        self.device, self.seed = str(resolve_device(device)), seed
        self.settings = settings_for(case, profile, self.device)
        self.book = RecordBook(
            Path(out) / f"{case.CHAPTER}.jsonl",
            case=case.__name__.rpartition(".")[2],
            profile=profile,
            device=self.device,
            seed=seed,
            quantities=case.RECORDS,
        )
        self._releases: dict[tuple, Release] = {}
        freeze_imports()

    @property
    def records(self) -> Records:
        """The records measured so far."""
        return self.book.records

    def add(self, name: str, value, *, spread=None, samples=None, **setting) -> Record:
        """Record a measurement. The case's `RECORDS` declare its unit and the keys of its setting.

        `samples` are the individual measurements that `value` summarizes.
        """
        return self.book.add(name, value, spread=spread, samples=samples, **setting)

    def add_ratio(self, name: str, times: Comparison, **setting) -> Record:
        """Record the median ratio of interleaved timings, with all the ratios as its samples."""
        return self.add(name, times.ratio, spread=(times.low, times.high), samples=times.ratios, **setting)

    def release(self, requirement: str, **environment: str) -> Release:
        """`Release(requirement)` with these environment variables; each call returns the same one, with its process."""
        key = requirement, *sorted(environment.items())
        if key not in self._releases:
            self._releases[key] = Release(requirement, environment=environment)
        return self._releases[key]

    def close(self) -> None:
        """End the processes of all releases."""
        for release in self._releases.values():
            release.close()


def at_once(releases: Iterable[Release], fn, *args, **kwargs) -> list:
    """`fn(...)` under each of these releases at the same time: to start their processes, and to measure bytes and
    counts, but not times."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda release: release.run(fn, *args, **kwargs), releases))


def settings_for(case, profile: str, device: str):
    """`case.SETTINGS[profile]`, on a GPU with the replacements in `case.ON_CUDA`: smaller sizes would measure the GPU
    libraries, which reserve tens of megabytes for themselves."""
    settings = case.SETTINGS[profile]
    replacements = getattr(case, "ON_CUDA", {}) if str(device).startswith("cuda") else {}
    return replace(settings, **replacements.get(profile, {}))
