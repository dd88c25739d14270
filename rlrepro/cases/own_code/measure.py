"""The measurements of chapter 7. Each function adds its records to a bench, and returns what the notebook shows."""

import statistics
from pathlib import Path

from rlrepro.cases.common.bench import Bench
from rlrepro.cases.own_code import workloads
from rlrepro.cases.own_code.costs import Cost, compare_costs
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.spent import NAN_SEARCH, WAIT


def costs_of_rules(bench: Bench) -> list[Cost]:
    """The cost of each problem that no other chapter measures. Let nothing else run meanwhile."""
    costs = list(compare_costs(bench.settings.repeats))
    for cost in costs:
        bench.add("cost", cost.ratio, spread=(cost.low, cost.high), rule=cost.rule, what=cost.label)
    return costs


def watched_runs(bench: Bench, project: Path, state: str) -> dict[str, Report]:
    """Run the scripts of the project under the doctor's watch. `state` is "before" or "after" the fixes."""
    reports = workloads.run_scripts(project, bench.settings.runs)
    for script, report in reports.items():
        match script:
            case "ppo.py":
                bench.add("largest_pass", report.notes.passes["without gradients"].rows, state=state)
            case "recommender.py":
                bench.add("transition", sum(_buffer(report).bytes.values()), state=state)
            case "world_model.py":
                (by_stored,) = _buffer(report).seconds.values()  # seconds of samples, for the only batch size
                bench.add("sample", statistics.median(by_stored[max(by_stored)]), state=state)
            case "newest/sac.py":
                bench.add("searched", _spent(report, NAN_SEARCH, "seconds"), state=state)
            case "newest/robots.py":
                bench.add("awake", _spent(report, WAIT, "awake_seconds"), state=state)
            case workloads.RLLIB:
                values = report.notes.stages["values"]
                bench.add("values", values.peak_bytes - values.before_bytes, state=state)
            case "sweep.py":
                bench.add("train", report.notes.stages["train"].seconds, state=state)
                for kind, seconds in report.split.items():
                    bench.add("time", seconds, state=state, kind=kind)
    bench.add("findings", sum(len(report.findings) for report in reports.values()), state=state)
    return reports


def trials(bench: Bench, project: Path, script: str, report: Report) -> Report:
    """Run a script again with fewer threads, and with threads that sleep, and add these trials to the report."""
    report.trials = workloads.try_variants(project, script, report)
    for trial in report.trials:
        if trial.ratio is not None:
            bench.add("tried", trial.ratio, variables=" ".join(trial.variables))
    return report


def _buffer(report: Report):
    (buffer,) = report.notes.buffers.values()
    return buffer


def _spent(report: Report, name: str, attribute: str) -> float:
    """Seconds spent in calls of a method, or 0 if there were none, as after some fixes."""
    return getattr(report.notes.spent.get(name), attribute, 0.0)
