"""`rlrepro fit`: the plan of an update, for people or for programs."""

import json
from pathlib import Path

from rlrepro.fit.builder import call_builder
from rlrepro.fit.memory_plan import Plan
from rlrepro.fit.planner import plan

LIMITED_IN = {"batch_size": "in learn", "max_batchsize": "in preprocess"}  # the stage that each size limits
ROLLOUT = 2048  # transitions, where none is given: SB3's default for one environment


def describe_plan(
    what: str, gib: float, *, as_json: bool = False, size: tuple = (), arguments: tuple[str, ...] = (), **options
) -> tuple[str, bool]:
    """(text, whether the update fits). `what` is a file with an update, or MODULE:FUNCTION, which returns networks.

    Args:
        size: pairs of name and value, for a file
        arguments: of the script
        options: those of `plan`, for networks; None stands for the default

    Raises CannotPlan.
    """
    file, _, function = what.partition(":")
    if file.endswith(".py") and (not function or size or arguments or not _is_builder(file, function)):
        from rlrepro.fit.script_file import plan_file

        planned = plan_file(Path(file), function or None, arguments, dict(size), gib)
        asked = [name for name in planned.sizes if "batch" in name or name in dict(size)]
        return _described(planned, gib, {name: planned.largest(name) for name in asked}, as_json, "")
    defaults = {"rollout": ROLLOUT, "batch_size": 64, "library": "tianshou-ppo", "envs": 1}
    assumed = {name: value for name, value in defaults.items() if options.get(name) is None}
    options |= assumed
    planned = plan(*call_builder(what), device_memory_gib=gib, **options)
    largest = {"batch_size": planned.largest_batch_size(), "rollout": planned.largest_rollout()}
    if planned.max_batchsize is not None:
        largest["max_batchsize"] = planned.largest_max_batchsize()
    given = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in assumed.items())
    return _described(planned, gib, largest, as_json, f"planned with {given}" if assumed else "", options)


def _is_builder(file: str, function: str) -> bool:
    """Whether that function of the file takes no arguments and is not marked as one that trains."""
    import ast

    path = Path(file)
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    found = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function]
    return not any(each.args.args or each.decorator_list for each in found)


def _described(planned: Plan, gib: float, largest: dict, as_json: bool, assumed: str, options: dict | None = None):
    failing = planned.failing_stage()
    if as_json:
        sizes = {**(options or {}), **planned.sizes}
        answer = {"gib": gib, **sizes, "stages_bytes": planned.stages, "margins_bytes": planned.margins}
        answer |= {"fits": planned.fits(), "failing_stage": failing, "host_bytes": planned.host_bytes}
        answer |= {f"largest_{name}": size for name, size in largest.items()}
        return json.dumps(answer, indent=2), planned.fits()
    verdict = f"does not fit into {gib:g} GiB: {failing} needs more" if failing else f"fits into {gib:g} GiB"
    lines = [f"{planned}", "", verdict, *filter(None, [assumed])]
    for name, size in largest.items():
        stage = LIMITED_IN.get(name, "with these sizes, observations in host memory") if assumed or options else "alone"
        lines.append(f"largest {name} ({stage}): {'not limited by GPU memory' if size is None else f'{size:,}'}")
    return "\n".join(lines), planned.fits()
