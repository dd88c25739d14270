"""The report on a watched run: what was observed, and what is wrong."""

from dataclasses import asdict
from pathlib import Path

from rlrepro.doctor.finding import Finding, all_rules
from rlrepro.doctor.live.activity import KINDS, LEARNS
from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.progress import Progress
from rlrepro.doctor.live.thread_stats import Crowd
from rlrepro.lab.units import format_value, number

MAX_SIZES = 3  # batch sizes that are reported per buffer
SEVERAL = 1.5  # average number of threads per process from which it is more than one each


class Report:
    """What was observed in a run, over all its processes, and the findings. `script` is what was run and `folder` the
    working folder: paths below it are reported relative to it."""

    def __init__(self, script: str, folder: Path):
        self.script, self.folder = script, folder
        self.notes = Notes()
        self.crowd = Crowd(cores=1)
        self.findings: list[Finding] = []
        self.unwatched: list[str] = []  # processes in which nothing could be watched, with the reason
        self.seconds = 0.0  # that the command ran
        self.ended = False  # whether it was ended early
        self.trials: list = []  # of Trial

    def close(self) -> None:
        """Diagnose the problems, after everything has been observed."""
        from rlrepro.doctor.rules.running import diagnose

        self.findings = diagnose(self.notes, self.crowd, self.script, self.folder)

    @property
    def split(self) -> dict[str, float]:
        """Seconds of all training processes by kind of work: environment, inference, learning, sampling and the rest,
        without those of the watch itself."""
        return dict(zip(KINDS, Progress.of(self.notes).completed.seconds, strict=True))

    def plot(self):
        """A figure of the time split over the run, which a notebook displays. Needs Matplotlib. Raises ValueError if no
        training was seen."""
        try:
            from rlrepro.doctor.live.plot import plot_split
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("plot needs Matplotlib: pip install matplotlib", name=error.name) from error

        return plot_split(self.notes)

    def __str__(self) -> str:
        lines = [_threads(self.crowd, self.findings), *self.unwatched, *_time(self.notes)]
        lines += [*_stages(self.notes), *_passes(self.notes), *_buffers(self.notes)]
        lines += [f"tried        {trial}" for trial in self.trials]
        rules = all_rules()
        lines += [
            f"{finding}\n    fix: {rules[finding.code].fix}\n    why: rlrepro doctor --explain {finding.code}"
            for finding in self.findings
        ]
        if not self.findings and not self.notes:
            return "\n".join([*lines, f"nothing was measured: no training was seen{' so far' if self.ended else ''}"])
        count = len(self.findings)
        return "\n".join([*lines, f"{count or 'no'} finding{'' if count == 1 else 's'}"])

    def as_dict(self) -> dict:
        """What was measured, as a dict for JSON; `measured` is whether any training was observed."""
        progress, notes = Progress.of(self.notes), self.notes.as_dict()
        return {
            "measured": bool(self.notes),
            "seconds": self.seconds,
            "ended": self.ended,
            "unwatched": self.unwatched,
            "threads": asdict(self.crowd),
            "training_seconds": progress.seconds,
            "watched": progress.watched,
            "split": self.split | {"watching": progress.completed.watching_seconds},
            "counts": dict(progress.completed.counts),
            **{name: notes[name] for name in ("stages", "cut_short", "sizes", "passes", "buffers")},
            "trials": [asdict(trial) | {"ratio": trial.ratio} for trial in self.trials],
        }


def _threads(crowd: Crowd, findings: list[Finding]) -> str:
    if not crowd.readable:
        return "threads      not measured: this system has no /proc, which only Linux has"
    if not crowd.ran_seconds:
        return "threads      not measured: the run was too short"
    line = f"threads      {crowd.cores} cores, up to {crowd.processes} processes, {crowd.ran_seconds:.1f} s on a core"
    if crowd.waited_seconds is not None:
        line += f", {crowd.waited_seconds:.1f} s waiting for a core"
    if crowd.crowded_samples:
        share = crowd.crowded_samples / crowd.samples
        line += f"; more threads than cores in {share:.0%} of samples, {crowd.runnable:.1f} threads on average"
        if not any(finding.code == "RUN001" for finding in findings):
            single = crowd.runnable < SEVERAL * crowd.busy_processes
            line += ", about one per process, which" if single else ", but so briefly that it"
            line += " is not a problem"
    return line


def _time(notes: Notes) -> list[str]:
    progress = Progress.of(notes)
    spent, watching = progress.busy_seconds, progress.completed.watching_seconds
    if not spent:
        return []
    *parts, (rest, _) = zip(progress.completed.seconds, KINDS, strict=True)
    split = ", ".join(f"{kind} {seconds / spent:.0%}" for seconds, kind in sorted(parts, reverse=True) if seconds)
    at_once = f" of {progress.processes} processes at once" if progress.processes > 1 else ""
    split += f", the rest {rest / spent:.0%}; watching itself took at least {watching / spent:.1%}"
    lines = [f"time         {format_value(spent, 's')}{at_once}: {split}"]
    if progress.completed.estimated_seconds:
        lines.append(
            f"watched      {progress.watched:.1%} of that time: every step is counted; the time split and the number "
            "of buffer samples are estimated; stages, passes and buffers are from the watched time alone"
        )
    counts = sorted(progress.completed.counts.items(), key=lambda item: item[0] != LEARNS)
    if counts and progress.seconds:
        rates = ", ".join(f"{count:,} {unit} ({number(count / progress.seconds)} per second)" for unit, count in counts)
        lines.append(f"progress     {rates}")
    return lines


def _stages(notes: Notes) -> list[str]:
    lines = []
    for name, stage in notes.stages.items():
        calls = f"{stage.calls:,} call{'' if stage.calls == 1 else 's'}"
        line = f"stage        {name}: {calls}, {format_value(stage.seconds, 's')}"
        if stage.peak_bytes is not None and stage.before_bytes is not None:
            line += f", at most {format_value(stage.peak_bytes, 'B')} of {'the GPU' if stage.on_gpu else 'memory'}"
            line += f", {format_value(max(0, stage.peak_bytes - stage.before_bytes), 'B')} more than before"
        lines.append(line)
    return lines + [f"cut short    {name} was still running when the run ended" for name in notes.cut_short]


def _passes(notes: Notes) -> list[str]:
    sizes = ", ".join(f"{name} {size:,}" for name, size in notes.sizes.items())
    lines = [f"sizes        {sizes}"] if sizes else []
    for kind, largest in sorted(notes.passes.items(), reverse=True):
        lines.append(
            f"largest pass {largest.rows:,} samples {kind}, in {largest.place}"
            + (f", {largest.stage}" if largest.stage else "")
        )
    return lines


def _buffers(notes: Notes) -> list[str]:
    lines = []
    for name, buffer in notes.buffers.items():
        for batch, seconds in list(buffer.seconds.items())[:MAX_SIZES]:
            times = [(rows, min(samples)) for rows, samples in sorted(seconds.items())]
            ends = times if len(times) == 1 else [times[0], times[-1]]
            durations = ", ".join(f"{format_value(shortest, 's')} with {rows:,} stored" for rows, shortest in ends)
            lines.append(f"sample       {name}, the fastest of {batch:,}: {durations}")
        if buffer.bytes:
            largest = sorted(buffer.bytes.items(), key=lambda item: -item[1])
            sizes = ", ".join(f"{key} {format_value(size, 'B')}" for key, size in largest[:6])
            lines.append(f"transition   {name}: {format_value(sum(buffer.bytes.values()), 'B')}: {sizes}")
    return lines
