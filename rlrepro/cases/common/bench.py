"""Where a case is measured: one run of its notebook, with its settings, its device and its records."""

from functools import cache
from pathlib import Path

from rlrepro.cases.common.profiles import settings_for
from rlrepro.evidence.records import Record, RecordBook, Records
from rlrepro.lab.machine import resolve_device
from rlrepro.lab.releases import Release


class Bench:
    """One run of a case's notebook. `case` is its package: `SETTINGS`, `RECORDS` and `CHAPTER` are taken from there.

    Attributes: `settings` (of the profile, on this device), `device`, `seed`, and `book`, which writes the records to
    `OUT/CHAPTER.jsonl`. Raises NoGPUError for a device that is not there, and KeyError for an unknown profile.
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
        self.release = cache(Release)  # one process per release, kept for the whole run

    @property
    def records(self) -> Records:
        """What was measured so far."""
        return self.book.records

    def add(self, name: str, value, *, spread=None, **setting) -> Record:
        """Keep a measurement; its unit and the keys of its setting are those that the case's `RECORDS` declare."""
        return self.book.add(name, value, spread=spread, **setting)
