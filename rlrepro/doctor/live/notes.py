"""What is noted of one process while it trains, and how it travels between processes."""

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path

from rlrepro.doctor.live.activity import Activity

FOLDER = "RLREPRO_DOCTOR_NOTES"  # the variable that names where notes are kept, as startup/sitecustomize.py reads it
WRITE_SHARE = 0.01  # of the time that may go into writing notes
LONGEST_PAUSE = 0.5  # seconds between two writings, if there is anything to note
KEPT_TIMES = 64  # of the samples at about as many stored rows


class NotWhole(ValueError):
    """A file that does not have the notes of a process."""


@dataclass
class Place:
    """A line of somebody's text."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        """From the folder that a package lies in, so that files of one name are told apart."""
        return f"{_from_package(self.path)}:{self.line} ({self.function})"


@cache
def _from_package(file: str) -> Path:
    """Kept, since a buffer is named by its place at each sample."""
    path = Path(file)
    top = path.parent
    while (top / "__init__.py").exists() and top.parent != top:
        top = top.parent
    return path.relative_to(top)


@dataclass
class Pass:
    """The largest forward pass of a layer: how many rows, where, and in which stage of a library's training.

    `repeated` is in how many rows each state stands, where the rows are all pairs of a state and an action; else 0.
    """

    rows: int
    place: Place
    own: Place | None  # the innermost line of the project itself
    stage: str | None
    repeated: int = 0


@dataclass
class Stage:
    """What a stage took in all its calls; the peak is the process's, or the GPU's, and None where it can't be known."""

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
    """The replay buffers that one line makes (`own`, where that was seen): seconds of a sample by how many rows were
    asked for and how many are stored, and bytes of a stored transition by key.

    `alike` says of a key that it is "one-hot", "computed by a network", or "the same in each transition".
    """

    own: Place | None
    place: Place
    seconds: dict[int, dict[int, list[float]]] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    described_at: int = 0  # rows that were stored when the transitions were looked at
    _about: dict[int, dict[int, int]] = field(default_factory=dict)  # stored rows, rounded: those that stand for them

    def sampled(self, batch: int, stored: int, seconds: float) -> None:
        """Samples from about as many rows come together, under the first of these numbers."""
        first = self._about.setdefault(batch, {}).setdefault(_rounded(stored), stored)
        times = self.seconds.setdefault(batch, {}).setdefault(first, [])
        if len(times) < KEPT_TIMES:
            times.append(seconds)


@dataclass
class Spent:
    """What the calls of one method took: seconds of all, of those that waited long without ever sleeping, and of the
    longest; and the most that one worked on."""

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
    """What one process has been seen to do. Pickled, it arrives empty: a child takes its own notes."""

    pid: int = field(default_factory=os.getpid)
    sizes: dict[str, int] = field(default_factory=dict)  # as configured: batch_size, max_batchsize
    passes: dict[str, Pass] = field(default_factory=dict)  # "with gradients", "without gradients"
    stages: dict[str, Stage] = field(default_factory=dict)
    gradients_while_collecting: Place | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)  # by what is known to waste time
    activities: dict[str, Activity] = field(default_factory=dict)  # by thread
    torch_threads: dict[str, int] = field(default_factory=dict)  # by process
    cut_short: list[str] = field(default_factory=list)  # stages that were running when the run was ended
    _folder: Path | None = None
    _clocks: object = None  # Clocks, where time is divided
    _writing: bool = False
    _next_write: float = 0.0

    def __reduce__(self):
        return Notes, ()

    def __bool__(self) -> bool:
        """Whether the process did anything that is watched."""
        return bool(self.passes or self.stages or self.buffers or any(each.began for each in self.activities.values()))

    def keep_in(self, folder: Path) -> None:
        """Write these notes into a folder from now on."""
        self._folder = folder

    def renew(self) -> None:
        """Forget everything: this is another process now. Whoever holds these dictionaries goes on with them."""
        self.pid, self._next_write, self._writing = os.getpid(), 0.0, False
        self.gradients_while_collecting = None
        for each in (
            self.sizes,
            self.passes,
            self.stages,
            self.buffers,
            self.spent,
            self.activities,
            self.torch_threads,
            self.cut_short,
        ):
            each.clear()

    def write_now_and_then(self) -> None:
        """As often as costs little: a process may be killed at any time."""
        if self._folder is not None and (start := time.monotonic()) > self._next_write:
            self.write()
            now = time.monotonic()
            self._next_write = now + min((now - start) / WRITE_SHARE, LONGEST_PAUSE)

    def write(self) -> None:
        """Into a file of this process, whole or not at all. A training never fails because its notes can't be kept."""
        if not self or self._folder is None or self._writing:
            return
        path = self._folder / f"{self.pid}.json"
        self._writing, start = True, time.perf_counter()  # a signal may come in the middle
        try:
            self.settle()
            with suppress(OSError, RuntimeError):  # RuntimeError: another thread adds a stage just now
                path.with_suffix(".part").write_text(json.dumps(self.as_dict()))
                path.with_suffix(".part").replace(path)
        finally:
            self._writing = False
            if self._clocks is not None:
                self._clocks.clock.charge(time.perf_counter() - start)

    def as_dict(self) -> dict:
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self) if not each.name.startswith("_")}

    def settle(self) -> None:
        """Add what is known only now."""
        if self._clocks is not None:
            self._clocks.settle()
        if (count := getattr(sys.modules.get("torch"), "get_num_threads", None)) is not None:
            self.torch_threads[str(self.pid)] = count()

    def add(self, other: "Notes") -> None:
        """Take over what another process of the same run has seen: the largest passes and peaks, and all calls."""
        self.sizes |= other.sizes
        self.activities |= other.activities
        self.torch_threads |= other.torch_threads
        self.cut_short = sorted({*self.cut_short, *other.cut_short})
        self.gradients_while_collecting = self.gradients_while_collecting or other.gradients_while_collecting
        for kind, each in other.passes.items():
            if kind not in self.passes or each.rows > self.passes[kind].rows:
                self.passes[kind] = each
        for name, each in other.stages.items():
            self.stages.setdefault(name, Stage()).add(each)
        for name, each in other.spent.items():
            if (known := self.spent.setdefault(name, each)) is not each:
                known.add(each)
        for name, each in other.buffers.items():
            known = self.buffers.setdefault(name, each)
            for batch, times in each.seconds.items() if known is not each else ():
                for rows, seconds in times.items():
                    known.seconds.setdefault(batch, {}).setdefault(rows, []).extend(seconds)

    @classmethod
    def read(cls, path: Path) -> "Notes":
        """What another process has written. Raises NotWhole for anything else."""
        from pydantic import TypeAdapter, ValidationError  # not needed where notes are taken

        try:
            return TypeAdapter(cls).validate_json(path.read_bytes())
        except ValidationError as error:
            raise NotWhole(str(error).splitlines()[0]) from None


def _plain(value):
    if isinstance(value, Activity):
        return vars(value)  # a long one, and as JSON takes it
    if is_dataclass(value):
        return asdict(value)
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def _rounded(rows: int) -> int:
    """To two binary digits, so that samples of about as many rows come together."""
    step = 1 << max(0, rows.bit_length() - 3)
    return rows // step * step
