"""What was measured on GPUs: a table for the front page, from the records of each run on a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rlrepro.cases import all_cases
from rlrepro.evidence.records import Record
from rlrepro.evidence.tables import markdown_table
from rlrepro.evidence.verdicts import MachineRun
from rlrepro.lab.units import format_value

HEAD = """## On a GPU

Measured on {machines}. Each chapter has the figures of all machines at its end, and
[the verdicts](notebooks/06_verdicts.ipynb#Where-machines-disagree) say where a GPU and a CPU disagree.

"""


@dataclass(frozen=True)
class GpuFigure:
    """A line of the table: a record, or two to compare. `text` may name keys of their setting, as in `{rows:,}`."""

    text: str
    section: str  # of a chapter: "notebook#heading"
    record: str
    setting: dict
    before: dict = field(default_factory=dict)
    after: dict | None = None

    def cell(self, run: MachineRun) -> str:
        """What the run measured, or "" if it did not measure all of it."""
        sides = (self.before,) if self.after is None else (self.before, self.after)
        measured = [run.records.where(self.record, **self.setting, **side) for side in sides]
        return " → ".join(_formatted(records[-1]) for records in measured) if all(measured) else ""

    @property
    def link(self) -> str:
        """The chapter, by its number."""
        chapter, _, heading = self.section.partition("#")
        return f"[{int(chapter[:2])}](notebooks/{chapter}.ipynb#{heading})"


MEMBERS = (
    "throughput of gradient steps of an `EnsemblePPO` with {members:,} members, over that of one learner of "
    "Stable-Baselines3 alone on the same GPU"
)
FIGURES = (
    GpuFigure(
        "peak memory of preprocessing {rows:,} transitions by PPO, in tianshou 1.0.0 → in 1.1.0, which has the fix",
        "02_logp_old_oom#How-it-grows",
        "logp_old.peak",
        {"rows": 4096, "network": "nature"},
        {"release": "1.0.0"},
        {"release": "1.1.0"},
    ),
    GpuFigure(
        "time of a sample by `SliceSampler` of torchrl 0.6.0, {stored:,} transitions stored in a buffer for "
        "{capacity:,}: in host memory → on the GPU",
        "03_slice_sampler#Is-it-the-capacity?",
        "slice_sampler.sample",
        {"release": "0.6.0", "sampler": "episode", "stored": 346_000_000, "capacity": 600_000_000},
        {"storage": "cpu"},
        {"storage": "cuda"},
    ),
    GpuFigure(
        "throughput of gradient steps of {processes} training runs of Stable-Baselines3 that share the GPU, over that "
        "of one",
        "04_parallel_training#On-a-GPU",
        "parallel_training.sharing_gain",
        {"processes": 8},
    ),
    *(
        GpuFigure(
            MEMBERS,
            "04_parallel_training#Beyond:-one-network-in-place-of-many-processes",
            "parallel_training.members_ratio",
            {"members": members},
        )
        for members in (256, 1024)
    ),
    GpuFigure(
        "peak memory of Pearl's whole update on {rows} states with {actions:,} actions, with its own critics → with "
        "`FactoredQ`",
        "05_large_action_spaces#Our-fix",
        "large_actions.article_update",
        {"actions": 27_000, "rows": 128},
        {"way": "plain"},
        {"way": "factored"},
    ),
)


def on_gpu(runs: Sequence[MachineRun]) -> str:
    """MyST: a section with a column for each run on a GPU, or "" if no run measured any of this on one."""
    runs = gpu_runs(runs)
    lines = [(figure, [figure.cell(run) for run in runs]) for figure in FIGURES]
    rows = [
        (figure.text.format(**figure.setting), *(cell or "–" for cell in cells), figure.link)
        for figure, cells in lines
        if any(cells)
    ]
    if not rows:
        return ""
    machines = "; ".join("{GPU} ({label}, torch {torch}, {measured})".format(label=r.label, **r.traits) for r in runs)
    columns = ("measured", *(run.traits["GPU"] for run in runs), "chapter")
    return HEAD.format(machines=machines) + markdown_table(columns, rows)


def gpus(runs: Sequence[MachineRun]) -> str:
    """The GPUs with records, and the chapters that were measured on each."""
    cases = {}
    for run in gpu_runs(runs):
        cases.setdefault(run.traits["GPU"], set()).update(record.name.split(".")[0] for record in run.records)
    named = [f"{gpu} ({_chapters(names)})" for gpu, names in cases.items()]
    return "; ".join(named) or "none yet, so what this page says about GPUs is not measured; yours would be the first"


def gpu_runs(runs: Sequence[MachineRun]) -> list[MachineRun]:
    """Those that measured on a GPU."""
    return [run for run in runs if run.traits["device"].startswith("cuda")]


def _chapters(cases: set[str]) -> str:
    numbers = sorted(int(case.CHAPTER[:2]) for case in all_cases() if case.__name__.rpartition(".")[2] in cases)
    return f"chapter{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _formatted(record: Record) -> str:
    value = f"**{format_value(record.value, record.unit)}**"
    if record.unit != "ratio" or not record.spread:
        return value
    low, high = (format_value(bound, record.unit) for bound in record.spread)
    return f"{value} ({low} to {high})"
