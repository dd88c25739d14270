"""`rlrepro fit`: the plan of an update, for people or for programs."""

import json

from rlrepro.fit.builder import call_builder
from rlrepro.fit.planner import plan

LIMITED_IN = {"batch_size": "in learn", "max_batchsize": "in preprocess"}  # the stage that each size limits


def describe_plan(builder: str, gib: float, *, as_json: bool = False, **arguments) -> tuple[str, bool]:
    """(text, whether the update fits) for the networks that `builder`, a MODULE:FUNCTION, returns. The other arguments
    are those of `plan`. Raises CannotPlan."""
    planned = plan(*call_builder(builder), device_memory_gib=gib, **arguments)
    largest = {"batch_size": planned.largest_batch_size(), "rollout": planned.largest_rollout()}
    if planned.max_batchsize is not None:
        largest["max_batchsize"] = planned.largest_max_batchsize()
    failing = planned.failing_stage()
    if as_json:
        arguments["max_batchsize"] = planned.max_batchsize
        answer = {"gib": gib, **arguments, "stages_bytes": planned.stages, "margins_bytes": planned.margins}
        answer |= {"fits": planned.fits(), "failing_stage": failing}
        answer |= {f"largest_{name}": size for name, size in largest.items()}
        return json.dumps(answer, indent=2), planned.fits()
    verdict = f"does not fit into {gib:g} GiB: {failing} needs more" if failing else f"fits into {gib:g} GiB"
    lines = [f"{planned}", "", verdict]
    for name, size in largest.items():
        stage = LIMITED_IN.get(name, "with these sizes, observations in host memory")
        lines.append(f"largest {name} ({stage}): {'not limited by GPU memory' if size is None else f'{size:,}'}")
    return "\n".join(lines), planned.fits()
