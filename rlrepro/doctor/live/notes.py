"""What is noted of one process while it trains, and how it travels between processes."""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

WRITE_SECONDS = 1.0  # between two writes of the same notes
KEPT_TIMES = 64  # of the samples at about as many stored rows


@dataclass
class Place:
    """A line of somebody's text."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.path).name}:{self.line} ({self.function})"


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


@dataclass
class Buffer:
    """A kind of replay buffer: seconds of a sample by stored rows, and bytes of a stored transition by key.

    `alike` says of a key that it is "one-hot", or "the same in each transition".
    """

    own: Place | None
    place: Place
    seconds: dict[int, list[float]] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    described_at: int = 0  # rows that were stored when the transitions were looked at

    def sampled(self, rows: int, seconds: float) -> None:
        times = self.seconds.setdefault(_rounded(rows), [])
        if len(times) < KEPT_TIMES:
            times.append(seconds)


@dataclass
class Notes:
    """What one process has been seen to do. Pickled, it arrives empty: a child takes its own notes."""

    pid: int = field(default_factory=os.getpid)
    command: list[str] = field(default_factory=lambda: list(sys.argv))
    began: float = field(default_factory=time.time)
    seconds: float = 0.0
    threads: int | None = None  # torch's
    sizes: dict[str, int] = field(default_factory=dict)  # as configured: batch_size, max_batchsize
    passes: dict[str, Pass] = field(default_factory=dict)  # "with gradients", "without gradients"
    stages: dict[str, Stage] = field(default_factory=dict)
    gradients_while_collecting: Place | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)

    def __reduce__(self):
        return Notes, ()

    def close(self) -> "Notes":
        self.seconds = time.time() - self.began
        torch = sys.modules.get("torch")
        self.threads = torch.get_num_threads() if hasattr(torch, "get_num_threads") else None
        return self

    def write(self, folder: Path) -> None:
        """Into a file of this process, whole or not at all."""
        path = folder / f"{self.pid}.json"
        path.with_suffix(".part").write_text(json.dumps(asdict(self.close())))
        path.with_suffix(".part").replace(path)

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
                | {"seconds": {int(rows): times for rows, times in each["seconds"].items()}}
            )
            for name, each in found["buffers"].items()
        }
        stages = {name: Stage(**each) for name, each in found["stages"].items()}
        collecting = place(found["gradients_while_collecting"])
        return cls(
            **found
            | {"passes": passes, "buffers": buffers, "stages": stages}
            | {"gradients_while_collecting": collecting}
        )


def _made(cls):
    return lambda found: cls(**found) if found else None


def _rounded(rows: int) -> int:
    """To two binary digits, so that samples of about as many rows come together."""
    step = 1 << max(0, rows.bit_length() - 3)
    return rows // step * step
