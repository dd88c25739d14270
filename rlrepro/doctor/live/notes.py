"""What is noted of one process while it trains, and how it travels between processes."""

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

WRITE_SHARE = 0.01  # of the time that may go into writing notes
KEPT_TIMES = 64  # of the samples at about as many stored rows


@dataclass
class Place:
    """A line of somebody's text."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        """From the folder that a package lies in, so that files of one name are told apart."""
        path = Path(self.path)
        top = path.parent
        while (top / "__init__.py").exists() and top.parent != top:
            top = top.parent
        return f"{path.relative_to(top)}:{self.line} ({self.function})"


@dataclass
class Pass:
    """The largest forward pass of a layer: how many rows, where, and in which stage of a library's training.

    `repeated` is how many rows in a row begin with the same numbers, as when a state goes through with every action.
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
    """A kind of replay buffer: seconds of a sample by how many rows were asked for and how many are stored, and bytes
    of a stored transition by key.

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
class Notes:
    """What one process has been seen to do. Pickled, it arrives empty: a child takes its own notes."""

    pid: int = field(default_factory=os.getpid)
    began: float = field(default_factory=time.time)
    seconds: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)  # as configured: batch_size, max_batchsize
    passes: dict[str, Pass] = field(default_factory=dict)  # "with gradients", "without gradients"
    stages: dict[str, Stage] = field(default_factory=dict)
    gradients_while_collecting: Place | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)
    _folder: Path | None = None
    _next_write: float = 0.0

    def __reduce__(self):
        return Notes, ()

    def __bool__(self) -> bool:
        """Whether the process did anything that is watched."""
        return bool(self.passes or self.stages or self.buffers)

    def keep_in(self, folder: Path) -> None:
        """Write these notes into a folder from now on, each second and when `write` is called."""
        self._folder = folder

    def renew(self) -> None:
        """Forget everything: this is another process now. Whoever holds these dictionaries goes on with them."""
        fresh = Notes()
        self.pid, self.began, self._next_write = fresh.pid, fresh.began, 0.0
        self.gradients_while_collecting = None
        for each in (self.sizes, self.passes, self.stages, self.buffers):
            each.clear()

    def close(self) -> "Notes":
        self.seconds = time.time() - self.began
        return self

    def write_now_and_then(self) -> None:
        """As often as costs little: a process may be killed at any time."""
        if self._folder is not None and (start := time.monotonic()) > self._next_write:
            self.write()
            now = time.monotonic()
            self._next_write = now + (now - start) / WRITE_SHARE

    def write(self) -> None:
        """Into a file of this process, whole or not at all. A training never fails because its notes can't be kept."""
        if not self or self._folder is None:
            return
        path = self._folder / f"{self.pid}.json"
        with suppress(OSError):
            path.with_suffix(".part").write_text(json.dumps(asdict(self.close()), default=str))
            path.with_suffix(".part").replace(path)

    def add(self, other: "Notes") -> None:
        """Take over what another process of the same run has seen: the largest passes and peaks, and all calls."""
        self.seconds = max(self.seconds, other.seconds)
        self.sizes |= other.sizes
        self.gradients_while_collecting = self.gradients_while_collecting or other.gradients_while_collecting
        for kind, each in other.passes.items():
            if kind not in self.passes or each.rows > self.passes[kind].rows:
                self.passes[kind] = each
        for name, each in other.stages.items():
            self.stages.setdefault(name, Stage()).add(each)
        for name, each in other.buffers.items():
            known = self.buffers.setdefault(name, each)
            for batch, times in each.seconds.items() if known is not each else ():
                for rows, seconds in times.items():
                    known.seconds.setdefault(batch, {}).setdefault(rows, []).extend(seconds)

    @classmethod
    def read(cls, path: Path) -> "Notes":
        found = json.loads(path.read_text())
        place = _made(Place)
        passes = {
            name: Pass(**each | {"place": place(each["place"]), "own": place(each["own"])})
            for name, each in found["passes"].items()
        }
        buffers = {
            name: Buffer(
                **each
                | {"own": place(each["own"]), "place": place(each["place"])}
                | {"seconds": {int(batch): _by_number(times) for batch, times in each["seconds"].items()}, "_about": {}}
            )
            for name, each in found["buffers"].items()
        }
        stages = {name: Stage(**each) for name, each in found["stages"].items()}
        collecting = place(found["gradients_while_collecting"])
        return cls(
            **found
            | {"passes": passes, "buffers": buffers, "stages": stages}
            | {"gradients_while_collecting": collecting, "_folder": None}
        )


def _by_number(found: dict) -> dict:
    return {int(key): value for key, value in found.items()}


def _made(cls):
    return lambda found: cls(**found) if found else None


def _rounded(rows: int) -> int:
    """To two binary digits, so that samples of about as many rows come together."""
    step = 1 << max(0, rows.bit_length() - 3)
    return rows // step * step
