"""What a watch has to say: what was seen, and what is wrong."""

from pathlib import Path

from rlrepro.doctor.finding import Finding, all_rules
from rlrepro.doctor.live.crowd import Crowd
from rlrepro.doctor.live.notes import Notes
from rlrepro.lab.units import format_value

SHOWN = 3  # sizes of samples of a buffer


class Report:
    """What was seen of a run, all its processes together, and the findings. `script` is what was run, `folder` where
    from: paths below it are told from there."""

    def __init__(self, script: str, folder: Path):
        self.script, self.folder = script, folder
        self.notes = Notes()
        self.crowd = Crowd(cores=1)
        self.findings: list[Finding] = []
        self.unwatched: list[str] = []  # processes in which nothing could be watched, and why

    def close(self) -> None:
        """Say what is wrong, now that everything was seen."""
        from rlrepro.doctor.rules.running import diagnose

        self.findings = diagnose(self.notes, self.crowd, self.script, self.folder)

    def __str__(self) -> str:
        lines = [*_threads(self.crowd), *self.unwatched]
        lines += [*_stages(self.notes), *_passes(self.notes), *_buffers(self.notes)]
        rules = all_rules()
        lines += [
            f"{each}\n    cure: {rules[each.code].cure}\n    why: rlrepro doctor --explain {each.code}"
            for each in self.findings
        ]
        count = len(self.findings)
        return "\n".join([*lines, f"{count or 'no'} finding{'' if count == 1 else 's'}"])


def _threads(crowd: Crowd) -> list[str]:
    if not crowd.ran_seconds:
        return ["threads      not seen: too short, or not Linux"]
    said = f"threads      {crowd.cores} cores, up to {crowd.processes} processes, {crowd.ran_seconds:.1f} s on a core"
    if crowd.waited_seconds is not None:
        said += f", {crowd.waited_seconds:.1f} s waiting for one"
    if crowd.crowded_looks:
        share = crowd.crowded_looks / crowd.looks
        said += f"; too many at once in {share:.0%} of the looks, {crowd.runnable:.1f} on average"
    return [said]


def _stages(notes: Notes) -> list[str]:
    return [
        f"stage        {name}: {stage.calls:,} calls, {format_value(stage.seconds, 's')}"
        + (
            f", at most {format_value(stage.peak_bytes, 'B')} of {'the GPU' if stage.on_gpu else 'memory'}, "
            f"{format_value(max(0, stage.peak_bytes - stage.before_bytes), 'B')} more than before"
            if stage.peak_bytes is not None and stage.before_bytes is not None
            else ""
        )
        for name, stage in notes.stages.items()
    ]


def _passes(notes: Notes) -> list[str]:
    sizes = ", ".join(f"{name} {size:,}" for name, size in notes.sizes.items())
    lines = [f"sizes        {sizes}"] if sizes else []
    for kind, each in sorted(notes.passes.items(), reverse=True):
        lines.append(
            f"largest pass {each.rows:,} rows {kind}, in {each.place}" + (f", {each.stage}" if each.stage else "")
        )
    return lines


def _buffers(notes: Notes) -> list[str]:
    lines = []
    for name, buffer in notes.buffers.items():
        for batch, seconds in list(buffer.seconds.items())[:SHOWN]:
            times = [(rows, min(each)) for rows, each in sorted(seconds.items())]
            ends = times if len(times) == 1 else [times[0], times[-1]]
            said = ", ".join(f"{format_value(each, 's')} from {rows:,} stored" for rows, each in ends)
            lines.append(f"sample       {name}, {batch:,} rows: at least {said}")
        if buffer.bytes:
            largest = sorted(buffer.bytes.items(), key=lambda each: -each[1])
            said = ", ".join(f"{key} {format_value(size, 'B')}" for key, size in largest[:6])
            lines.append(f"transition   {name}: {format_value(sum(buffer.bytes.values()), 'B')}: {said}")
    return lines
