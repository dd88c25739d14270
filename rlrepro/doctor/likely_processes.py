"""Recognize processes that probably compute with torch, on weaker evidence than in `workload`."""

from rlrepro.doctor.ast_index import Module, last_name
from rlrepro.doctor.call_graph import LEARNER, Reachable
from rlrepro.doctor.minibatches import is_gradient_step
from rlrepro.doctor.networks import is_network
from rlrepro.doctor.process_starts import Start
from rlrepro.doctor.project import Project
from rlrepro.doctor.workload import INFERRER, INFERS, TORCH, TRAINING_NAME, Workload, have_own_gpus, is_called_on


def likely_work(project: Project, module: Module, start: Start, reached: Reachable) -> Workload | None:
    """The probable workload of processes: any kind of network, if several processes or their parent compute as well."""
    calls = list(reached.calls())
    parent_trains = not module.loops(start.call) and any(is_gradient_step(call) for call in module.all_calls)
    modules = dict.fromkeys([*project.imported_by(module), *reached.modules])
    if not (start.several or parent_trains) or not any(mod.packages() & TORCH for mod in modules):
        return None
    if have_own_gpus(calls):
        return None
    for caller, call in calls:
        is_inference = last_name(call.func) in INFERS and is_called_on(call, LEARNER | INFERRER)
        if is_inference or (call.args and is_network(caller, call.func)):
            return Workload("probably runs a network", caller, call)
    if TRAINING_NAME.search(getattr(start.target.node, "name", "")):
        return Workload(f"runs {start.target.node.name}", *start.target)
    return None
