"""Notes on one process while it trains, and how they are passed between processes."""

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path

from rlrepro.doctor.live.activity import Activity

FOLDER = "RLREPRO_DOCTOR_NOTES"  # the variable with the folder for notes, which startup/sitecustomize.py reads
WRITE_SHARE = 0.01  # of the time that writing notes may take
LONGEST_PAUSE = 0.5  # seconds between two writes, if there is anything to note
MAX_TIMES = 64  # that are kept for about the same number of stored rows


class InvalidNotes(ValueError):
    """A file does not contain the notes of a process."""


@dataclass
class Place:
    """A line of source code."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        """The path relative to the folder of the package, so that files with the same name can be told apart."""
        return f"{_from_package(self.path)}:{self.line} ({self.function})"


@cache
def _from_package(file: str) -> Path:
    """Cached, since each sample names its buffer by its place."""
    path = Path(file)
    top = path.parent
    while (top / "__init__.py").exists() and top.parent != top:
        top = top.parent
    return path.relative_to(top)


@dataclass
class Pass:
    """The largest forward pass of a layer: how many rows, where, and in which stage of a library's training.

    `repeated` is the number of rows per state if the rows are all pairs of a state and an action, otherwise 0.
    """

    rows: int
    place: Place
    own: Place | None  # the innermost line of the project itself
    stage: str | None
    repeated: int = 0


@dataclass
class Stage:
    """What a stage took in all its calls; the peak is that of the process or of the GPU, and None if unknown."""

    calls: int = 0
    seconds: float = 0.0
    peak_bytes: int | None = None
    before_bytes: int | None = None  # when the stage with this peak began
    on_gpu: bool = False

    def add(self, other: "Stage") -> None:
        self.calls += other.calls
        self.seconds += other.seconds
        if other.peak_bytes is not None and other.peak_bytes > (self.peak_bytes or 0):
            self.peak_bytes, self.before_bytes, self.on_gpu = other.peak_bytes, other.before_bytes, other.on_gpu


@dataclass
class Buffer:
    """The replay buffers that one line creates (`own`, if that was observed): seconds per sample, by the numbers of
    requested and stored rows, and bytes of a stored transition by key.

    `alike` describes a key as "one-hot", "computed by a network", or "the same in each transition".
    """

    own: Place | None
    place: Place
    seconds: dict[int, dict[int, list[float]]] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    described_at: int = 0  # rows that were stored when the transitions were described
    _about: dict[int, dict[int, int]] = field(default_factory=dict)  # rounded number of rows -> its key in `seconds`

    def sampled(self, batch: int, stored: int, seconds: float) -> None:
        """Add the time of a sample. Samples from about the same number of rows share a key, the first such number."""
        first = self._about.setdefault(batch, {}).setdefault(_rounded(stored), stored)
        times = self.seconds.setdefault(batch, {}).setdefault(first, [])
        if len(times) < MAX_TIMES:
            times.append(seconds)


@dataclass
class Spent:
    """Seconds that the calls of one method took: all, those that waited long without ever sleeping, and the longest.
    `most` is the most that one call processed."""

    place: Place
    own: Place | None
    calls: int = 0
    seconds: float = 0.0
    awake_seconds: float = 0.0
    longest: float = 0.0
    most: int = 0

    def add(self, other: "Spent") -> None:
        self.calls += other.calls
        self.seconds += other.seconds
        self.awake_seconds += other.awake_seconds
        self.longest = max(self.longest, other.longest)
        self.most = max(self.most, other.most)


@dataclass
class Notes:
    """What one process was observed to do. Pickling empties it: a child takes its own notes."""

    pid: int = field(default_factory=os.getpid)
    sizes: dict[str, int] = field(default_factory=dict)  # as configured: batch_size, max_batchsize
    passes: dict[str, Pass] = field(default_factory=dict)  # "with gradients", "without gradients"
    stages: dict[str, Stage] = field(default_factory=dict)
    gradients_while_collecting: Place | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)  # by method that is known to waste time
    activities: dict[str, Activity] = field(default_factory=dict)  # by thread
    torch_threads: dict[str, int] = field(default_factory=dict)  # by process
    cut_short: list[str] = field(default_factory=list)  # stages that were running when the run was ended
    _folder: Path | None = None
    _clocks: object = None  # Clocks, if the time is split
    _writing: bool = False
    _next_write: float = 0.0

    def __reduce__(self):
        return Notes, ()

    def __bool__(self) -> bool:
        """Whether the process did anything that is watched."""
        return bool(
            self.passes or self.stages or self.buffers or any(activity.began for activity in self.activities.values())
        )

    def keep_in(self, folder: Path) -> None:
        """Write these notes to a folder from now on."""
        self._folder = folder

    def renew(self) -> None:
        """Clear everything in place, since this is another process now; others hold references to the dictionaries."""
        self.pid, self._next_write, self._writing = os.getpid(), 0.0, False
        self.gradients_while_collecting = None
        for collection in (
            self.sizes,
            self.passes,
            self.stages,
            self.buffers,
            self.spent,
            self.activities,
            self.torch_threads,
            self.cut_short,
        ):
            collection.clear()

    def write_if_due(self, always: bool = False) -> None:
        """Write as often as costs little, or `always`: a process may be killed at any time."""
        if self._folder is not None and ((start := time.monotonic()) > self._next_write or always):
            self.write()
            now = time.monotonic()
            self._next_write = now + min((now - start) / WRITE_SHARE, LONGEST_PAUSE)

    def write(self) -> None:
        """Write a file for this process, atomically. A training run never fails because its notes can't be written."""
        if not self or self._folder is None or self._writing:
            return
        path = self._folder / f"{self.pid}.json"
        self._writing, start = True, time.perf_counter()  # a signal may come in the middle
        try:
            self.settle()
            with suppress(OSError, RuntimeError):  # RuntimeError: another thread is adding a stage
                path.with_suffix(".part").write_text(json.dumps(self.as_dict()))
                path.with_suffix(".part").replace(path)
        finally:
            self._writing = False
            if self._clocks is not None:
                self._clocks.clock.charge(time.perf_counter() - start)

    def as_dict(self) -> dict:
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if not f.name.startswith("_")}

    def settle(self) -> None:
        """Add what is only known at the end."""
        if self._clocks is not None:
            self._clocks.settle()
        if (count := getattr(sys.modules.get("torch"), "get_num_threads", None)) is not None:
            self.torch_threads[str(self.pid)] = count()

    def add(self, other: "Notes") -> None:
        """Merge the notes of another process of the same run: the largest passes and peaks, and all calls."""
        self.sizes |= other.sizes
        self.activities |= other.activities
        self.torch_threads |= other.torch_threads
        self.cut_short = sorted({*self.cut_short, *other.cut_short})
        self.gradients_while_collecting = self.gradients_while_collecting or other.gradients_while_collecting
        for kind, largest in other.passes.items():
            if kind not in self.passes or largest.rows > self.passes[kind].rows:
                self.passes[kind] = largest
        for name, stage in other.stages.items():
            self.stages.setdefault(name, Stage()).add(stage)
        for name, spent in other.spent.items():
            if (own_spent := self.spent.setdefault(name, spent)) is not spent:
                own_spent.add(spent)
        for name, buffer in other.buffers.items():
            own_buffer = self.buffers.setdefault(name, buffer)
            for batch, times in buffer.seconds.items() if own_buffer is not buffer else ():
                for rows, seconds in times.items():
                    own_buffer.seconds.setdefault(batch, {}).setdefault(rows, []).extend(seconds)

    @classmethod
    def read(cls, path: Path) -> "Notes":
        """Read what another process has written. Raises InvalidNotes for anything else."""
        from pydantic import TypeAdapter, ValidationError  # not needed where notes are taken

        try:
            return TypeAdapter(cls).validate_json(path.read_bytes())
        except ValidationError as error:
            raise InvalidNotes(str(error).splitlines()[0]) from None


def _plain(value):
    if isinstance(value, Activity):
        return vars(value)  # asdict would copy long lists; this is already plain
    if is_dataclass(value):
        return asdict(value)
    return {name: _plain(entry) for name, entry in value.items()} if isinstance(value, dict) else value


def _rounded(rows: int) -> int:
    """Rounded down to three binary digits, so that samples from about the same number of rows share a key."""
    step = 1 << max(0, rows.bit_length() - 3)
    return rows // step * step
