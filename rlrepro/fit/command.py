"""`rlrepro fit`: the plan of an update, for people or for programs."""

import json
from pathlib import Path

from rlrepro.fit.builder import call_builder
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.planner import plan

LIMITED_IN = {"batch_size": "in learn", "max_batchsize": "in preprocess"}  # the stage that each size limits
ROLLOUT = 2048  # transitions, by default: SB3's default for one environment


def describe_plan(
    target: str, gib: float, *, as_json: bool = False, size: tuple = (), arguments: tuple[str, ...] = (), **options
) -> tuple[str, bool]:
    """(text, whether the update fits). `target` is a file with an update, or MODULE:FUNCTION, which returns networks.

    Args:
        size: pairs of name and value, for a file
        arguments: of the script
        options: those of `plan`, for networks; None stands for the default

    Raises CannotPlan.
    """
    file, _, function = target.partition(":")
    if file.endswith(".py") and (not function or size or arguments or not _is_builder(file, function)):
        from rlrepro.fit.script_file import plan_file

        if unused := [name for name, value in options.items() if value is not None]:
            raise CannotPlan(
                f"--{unused[0].replace('_', '-')} is for MODULE:FUNCTION. For the update in {file}, pass --size NAME "
                f"VALUE (for example --size batch_size 64), or {file}'s own options after --"
            )
        result = plan_file(Path(file), function or None, arguments, dict(size), gib)
        searched = [name for name in result.sizes if "batch" in name or name in dict(size)]
        return _format_plan(result, gib, {name: result.largest(name) for name in searched}, as_json, "")
    defaults = {"rollout": ROLLOUT, "batch_size": 64, "library": "tianshou-ppo", "envs": 1}
    assumed = {name: value for name, value in defaults.items() if options.get(name) is None}
    options |= assumed
    result = plan(*call_builder(target), device_memory_gib=gib, **options)
    largest = {"batch_size": result.largest_batch_size(), "rollout": result.largest_rollout()}
    if result.max_batchsize is not None:
        largest["max_batchsize"] = result.largest_max_batchsize()
    flags = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in assumed.items())
    return _format_plan(result, gib, largest, as_json, f"planned with {flags}" if assumed else "", options)


def _is_builder(file: str, function: str) -> bool:
    """Whether that function of the file takes no arguments and is not marked as one that trains."""
    import ast

    path = Path(file)
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    return not any(node.args.args or node.decorator_list for node in functions)


def _format_plan(result: Plan, gib: float, largest: dict, as_json: bool, note: str, options: dict | None = None):
    failing = result.failing_stage()
    if as_json:
        sizes = {**(options or {}), **result.sizes}
        report = {"gib": gib, **sizes, "stages_bytes": result.stages, "margins_bytes": result.margins}
        report |= {"fits": result.fits(), "failing_stage": failing, "host_bytes": result.host_bytes}
        report |= {f"largest_{name}": size for name, size in largest.items()}
        return json.dumps(report, indent=2), result.fits()
    verdict = f"does not fit into {gib:g} GiB: {failing} needs more" if failing else f"fits into {gib:g} GiB"
    lines = [f"{result}", "", verdict, *filter(None, [note])]
    for name, size in largest.items():
        stage = LIMITED_IN.get(name, "at these sizes; observations in host memory") if note or options else "alone"
        lines.append(f"largest {name} ({stage}): {'not limited by GPU memory' if size is None else f'{size:,}'}")
    return "\n".join(lines), result.fits()
