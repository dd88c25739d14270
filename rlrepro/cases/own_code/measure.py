"""The measurements of chapter 7: each function adds its records to a bench, and returns what the notebook shows."""

import statistics
from pathlib import Path

from rlrepro.cases.common.bench import Bench
from rlrepro.cases.own_code import workloads
from rlrepro.cases.own_code.costs import Cost, compare_costs
from rlrepro.doctor.live.report import Report


def costs_of_rules(bench: Bench) -> list[Cost]:
    """What each problem costs that no other chapter measures. Let nothing else run meanwhile."""
    costs = list(compare_costs(bench.settings.repeats))
    for cost in costs:
        bench.add("cost", cost.ratio, spread=(cost.low, cost.high), rule=cost.rule, what=cost.what)
    return costs


def watched_runs(bench: Bench, project: Path, state: str) -> dict[str, Report]:
    """Run each script of the project under the doctor's watch. `state` is "before" or "after" the fixes."""
    reports = workloads.run_scripts(project, bench.settings.side_by_side)
    world_model, recommender = _buffer(reports["world_model.py"]), _buffer(reports["recommender.py"])
    (sample_seconds,) = world_model.seconds.values()  # by stored timesteps, for the only batch size
    bench.add("largest_pass", reports["ppo.py"].notes.passes["without gradients"].rows, state=state)
    bench.add("sample", statistics.median(sample_seconds[max(sample_seconds)]), state=state)
    bench.add("train", reports["sweep.py"].notes.stages["train"].seconds, state=state)
    bench.add("transition", sum(recommender.bytes.values()), state=state)
    for kind, seconds in reports["sweep.py"].split.items():
        bench.add("time", seconds, state=state, kind=kind)
    bench.add("findings", sum(len(report.findings) for report in reports.values()), state=state)
    return reports


def trials(bench: Bench, project: Path, script: str, report: Report) -> Report:
    """Run a script again with fewer threads, and with threads that sleep, and add these trials to its report."""
    report.trials = workloads.try_variants(project, script, report)
    for trial in report.trials:
        if trial.ratio is not None:
            bench.add("tried", trial.ratio, variables=" ".join(trial.variables))
    return report


def _buffer(report: Report):
    (buffer,) = report.notes.buffers.values()
    return buffer
