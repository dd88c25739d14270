"""Processes that are likely to compute with torch: weaker evidence than in `workload`."""

from rlrepro.doctor.ast_index import Module, last_name
from rlrepro.doctor.call_graph import LEARNER, Reachable
from rlrepro.doctor.minibatches import is_gradient_step
from rlrepro.doctor.networks import is_network
from rlrepro.doctor.process_starts import Start
from rlrepro.doctor.project import Project
from rlrepro.doctor.workload import INFERRER, INFERS, NAMED, TORCH, Workload, have_own_gpus, is_called_on


def likely_work(project: Project, module: Module, start: Start, reached: Reachable) -> Workload | None:
    """What processes are likely to compute: a network of any kind, run where other processes or their parent compute
    as well."""
    calls = list(reached.calls())
    trains_beside = not module.loops(start.call) and any(is_gradient_step(call) for call in module.all_calls)
    near = dict.fromkeys([*project.imported_by(module), *reached.modules])
    if not (start.several or trains_beside) or not any(other.packages() & TORCH for other in near):
        return None
    if have_own_gpus(calls):
        return None
    for home, call in calls:
        acts = last_name(call.func) in INFERS and is_called_on(call, LEARNER | INFERRER)
        if acts or (call.args and is_network(home, call.func)):
            return Workload("probably runs a network", home, call)
    if NAMED.search(getattr(start.target.node, "name", "")):
        return Workload(f"runs {start.target.node.name}", *start.target)
    return None
