"""Records: what was measured, in which setting, on which machine; kept as JSON lines.

One file holds the records of one notebook's run. It is replaced as a whole each time a record is added, so a full disk
or a killed process leaves the previous version intact. A damaged line is reported, and the rest is read.
"""

import os
import threading
import warnings
from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rlrepro.evidence.schema import NOT_NEGATIVE, Quantity, UndeclaredRecord, check_record, declared
from rlrepro.lab.machine import Machine, resolve_device, this_machine
from rlrepro.lab.units import UNITS, format_value

Scalar = str | bool | int | float | None


class MissingRecord(LookupError):
    """A verdict or plot needs a measurement that the records don't have."""


class Record(BaseModel):
    """One measured value with its unit, setting and machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: Literal[1] = 1
    name: str = Field(pattern=r"^[a-z0-9_]+\.[a-z0-9_]+$")  # "case.measurement"
    value: Scalar | list[int]
    unit: str
    spread: tuple[float, float] | None = None  # low and high, if the measurement was repeated
    samples: tuple[float, ...] | None = None  # the single measurements behind a time or a ratio of times
    setting: dict[str, Scalar]
    device: str
    profile: str
    seed: int
    taken_at: datetime
    machine: Machine

    @field_validator("unit")
    @classmethod
    def _unit_is_known(cls, unit):
        if unit not in UNITS:
            raise ValueError(f"unknown unit {unit!r}; expected one of {', '.join(UNITS)}")
        return unit

    @model_validator(mode="after")
    def _value_has_that_unit(self):
        try:
            format_value(self.value, self.unit)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{self.value!r} is not a value in {self.unit!r}") from error
        if self.unit in NOT_NEGATIVE and self.value is not None and self.value < 0:
            raise ValueError(f"{self.value!r} is below 0; values in {self.unit!r} can't be")
        return self

    def __str__(self) -> str:
        setting = ", ".join(f"{key}={value}" for key, value in self.setting.items())
        return f"{self.name}({setting}) = {format_value(self.value, self.unit)}"


class Series(dict):
    """Measured values by one key of their setting. Looking up a key that was not measured raises MissingRecord."""

    def __init__(self, name: str, values: dict):
        super().__init__(values)
        self.name = name

    def __missing__(self, key):
        raise MissingRecord(f"no record of {self.name} at {key}")


class Records(list):
    """A list of `Record` with queries. `problems` lists the lines that could not be read."""

    def __init__(self, records=(), problems: tuple[str, ...] = ()):
        super().__init__(records)
        self.problems = problems

    def where(self, name: str, **setting) -> "Records":
        """The records with that name whose setting has these values, oldest first."""
        return Records(record for record in self if record.name == name and setting.items() <= record.setting.items())

    def all(self, name: str, **setting) -> "Records":
        """Like `where`, but raises MissingRecord, naming what was looked for, if there are none."""
        records = self.where(name, **setting)
        if not records:
            wanted_setting = ", ".join(f"{key}={value}" for key, value in setting.items())
            with_case = sorted({record.name for record in self if record.name.endswith(f".{name}")})
            hint = f"; there is {', '.join(with_case)}" if with_case else ""
            raise MissingRecord(f"no record of {name}" + (f" with {wanted_setting}" if self.where(name) else hint))
        return records

    def by_place(self) -> dict[tuple[str, str], "Records"]:
        """The records of each machine and device, by the machine's name and the device."""
        groups = {}
        for record in self:
            groups.setdefault((record.machine.name, record.device), Records()).append(record)
        return dict(sorted(groups.items()))

    def get(self, name: str, **setting) -> Record:
        """The newest such record. Raises MissingRecord if there are none."""
        return self.all(name, **setting)[-1]

    def series(self, name: str, along: str, **setting) -> dict[Any, Any]:
        """Values by one key of the setting, sorted by it: `series("case.peak", along="rows", release="1.0.0")`.

        Raises MissingRecord if there are none.
        """
        records_by_key = self.along(name, along, **setting)
        return Series(records_by_key.name, {key: record.value for key, record in records_by_key.items()})

    def along(self, name: str, along: str, **setting) -> dict[Any, Record]:
        """Like `series`, with records in place of values."""
        records = [record for record in self.where(name, **setting) if record.setting.get(along) is not None]
        if not records:
            raise MissingRecord(f"no record of {name} along {along}")
        by_key = {record.setting[along]: record for record in records}
        return Series(f"{name} along {along}", dict(sorted(by_key.items())))


class RecordBook:
    """The records of one notebook's run, written to `path` each time one is added.

    `case` is put before each name. A file that exists at `path` belongs to an earlier run, and the first record of this
    one replaces it. With `quantities`, only these can be added, and they define the units.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        case: str,
        profile: str,
        device: str,
        seed: int,
        quantities: Collection[Quantity] = (),
    ):
        self.path, self.case, self.quantities = Path(path), case, quantities
        self._common = {"profile": profile, "device": str(resolve_device(device)), "seed": seed}
        self.records = Records()
        self._lock = threading.Lock()

    def add(self, name: str, value, unit: str | None = None, *, spread=None, samples=None, **setting) -> Record:
        """Add a measurement and return its record.

        Raises UndeclaredRecord for a name or setting that `quantities` do not declare, pydantic's ValidationError for a
        bad name, value or unit, and OSError if the file can't be written: the file is then unchanged, and `records` has
        the new record.
        """
        if self.quantities:
            quantity = declared(self.quantities, name)
            quantity.check(setting, value)
            unit = quantity.unit
        record = Record(
            name=f"{self.case}.{name}",
            value=_to_python(value),
            unit=unit,
            spread=spread,
            samples=samples if samples is None else tuple(map(float, samples)),
            setting={key: _to_python(setting_value) for key, setting_value in setting.items()},
            taken_at=datetime.now(UTC),
            machine=this_machine(self._common["device"]),
            **self._common,
        )
        with self._lock:
            lines = [line.model_dump_json() + "\n" for line in (*self.records, record)]
            self.records.append(record)
            _replace(Path(os.path.realpath(self.path)), "".join(lines))
        return record


def _to_python(value):
    """A NumPy or torch number as Python's own."""
    return value.item() if hasattr(value, "item") else value


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}; the records in {path} are unchanged. Free some space or choose another "
            "folder, then run it again",
            str(path),
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_records(source: str | Path) -> Records:
    """All records of a JSON-lines file, or of every `.jsonl` file in a folder, oldest first.

    A damaged line, or a record that does not match its case's declaration, is left out, with a warning that names its
    file and line number. It is also listed in `.problems`, as is an empty file. Raises FileNotFoundError if `source`
    does not exist.
    """
    source = Path(source)
    if not source.exists():
        raise FileNotFoundError(f"no records at {source}; `rlrepro reproduce` makes them")
    records, problems = [], []
    for path in sorted(source.glob("*.jsonl")) if source.is_dir() else [source]:
        status = path.stat()
        read, left_out = _read_file(path, (status.st_ino, status.st_mtime_ns, status.st_size))
        records += read
        problems += left_out
    for problem in problems:
        warnings.warn(f"left out: {problem}", stacklevel=2)
    records.sort(key=lambda record: record.taken_at.timestamp())  # a folder may hold older copies of its files
    return Records(records, tuple(problems))


@lru_cache(maxsize=64)  # a site reads the files of each reference machine for many pages
def _read_file(path: Path, version: tuple[int, ...]) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Records and problems of a file. `version` differs when the file was written again."""
    records, problems = [], []
    lines = [] if path.is_dir() else path.read_bytes().splitlines()
    if not lines:
        problems.append(f"{path} {'is a folder, not a file' if path.is_dir() else 'is empty'}")
    for number, line in enumerate(lines, start=1):
        try:
            record = Record.model_validate_json(line)
            check_record(record.name, record.setting, record.value, record.unit)
            records.append(record)
        except ValidationError as error:
            first_error = error.errors()[0]
            location = ".".join(map(str, first_error["loc"]))
            problems.append(f"{path}, line {number}: {location + ': ' if location else ''}{first_error['msg']}")
        except UndeclaredRecord as error:
            problems.append(f"{path}, line {number}: {error}")
    return tuple(records), tuple(problems)
