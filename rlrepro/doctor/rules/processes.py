"""Rules for several processes that compute with torch."""

import ast

from rlrepro.doctor.ast_index import FUNCTIONS, last_name
from rlrepro.doctor.call_graph import Reachable
from rlrepro.doctor.edits import before_imports
from rlrepro.doctor.finding import rule
from rlrepro.doctor.instances import passed_classes
from rlrepro.doctor.likely_processes import likely_work
from rlrepro.doctor.lone_workers import is_locked
from rlrepro.doctor.process_starts import process_starts
from rlrepro.doctor.runnable import can_run
from rlrepro.doctor.thread_limits import is_limited
from rlrepro.doctor.workload import TORCH_OPS, is_tiny, keeps_results, trains, workload_of

VECTORS = ("SubprocVecEnv", "AsyncVectorEnv")


def _one_thread(module, call):
    """Only if the file itself contains the training. Processes inherit the variable, and torch reads it on import."""
    if not any(trains(module, call) for call in module.all_calls):
        return []
    return before_imports(
        module, 'import os\n\nos.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread per training process'
    )


@rule(
    "PT001",
    "several training processes, each with a thread for every core",
    words=("multiprocessing", "concurrent", "subprocess"),
    fix="Set OMP_NUM_THREADS=1 before torch is imported, call torch.set_num_threads(1) at the start of each worker, or "
    "use rlrepro.fixes.train_many.",
    chapter="04_parallel_training",
    claims=("PT1", "PT3"),
    autofix=_one_thread,
)
def no_limit(module, project):
    """Each process starts as many threads as there are cores, and threads that wait for each other keep a core busy
    (spinning). Small networks suffer too: even for a batch of two states, torch uses several threads for a layer with
    24 or more inputs (on Intel processors, only for larger layers), and for Adam's step on 2,049 or more weights."""
    seen, likely = set(), {}
    for start in process_starts(module, project):
        if start.target is None or start.call in seen:
            continue
        reached = Reachable(project, start.target, passed_classes(module, project, start.call))
        work = workload_of(project, module, start.target, reached, start.method) if start.several else None
        if work is None and (work := likely_work(project, module, start, reached)):
            if not is_limited(module, project, reached, start):
                likely[start.call] = work
            continue
        if work is not None and not is_limited(module, project, reached, start):
            seen.add(start.call)
            message = f"each of these processes {work.what} ({_where(module, work)}) with a thread for every core"
            idle = (
                any("cuda" in file.text for file in (module, start.target.module))
                or is_locked(work.module, work.node)
                or is_tiny([*project.imported_by(module), *reached.modules], one_state=keeps_results(reached))
                or not all(can_run(project, reached_module) for reached_module in reached.modules)
            )
            yield start.call, message, "high" if work.sure and not idle else "low"
    for call, work in likely.items():
        if call not in seen:
            yield call, f"{work.what} in each process ({_where(module, work)}), with a thread for every core", "low"


def _where(module, work) -> str:
    """The line of the work, with its file if that is a different one."""
    line = work.node.lineno
    return f"line {line}" if work.module is module else f"{work.module.path.name}:{line}"


@rule(
    "PT002",
    "processes are forked after torch has run computations",
    words=("multiprocessing", "concurrent"),
    fix='Use multiprocessing.get_context("spawn"), or start the processes before torch computes anything.',
    chapter="04_parallel_training",
)
def fork_after_work(module, project):
    """fork does not copy threads. If the parent has already computed with several threads, the child may wait forever
    for threads that do not exist in it."""
    if "torch" not in module.packages():
        return
    for start in process_starts(module, project):
        if start.method == "fork" and start.package != "torch" and (work := _work_before(module, start.call)):
            yield start.call, f"forks a process that has already trained with torch (line {work.lineno})", "medium"


@rule(
    "PT003",
    "the number of threads is set too late",
    words=("set_num_",),
    fix="Call torch.set_num_threads before anything is computed, or set OMP_NUM_THREADS before torch is imported.",
    chapter="04_parallel_training",
)
def too_late(module, project):
    """Everything before this call ran with a thread for every core. set_num_interop_threads even raises an error."""
    for call in module.calls("torch", "set_num_threads", "set_num_interop_threads"):
        if work := _work_before(module, call):
            raises = last_name(call.func) == "set_num_interop_threads"
            yield call, f"torch has already computed in line {work.lineno}", "medium" if raises else "low"


@rule(
    "PT004",
    "environment workers that compute with torch's default threads",
    words=VECTORS,
    fix="Call torch.set_num_threads(1) at the start of the function that creates the environment, or set "
    "OMP_NUM_THREADS=1.",
    chapter="04_parallel_training",
)
def workers(module, project):
    """SubprocVecEnv and AsyncVectorEnv run their workers as processes. If the environment computes with torch, each
    worker does so with a thread for every core."""
    environments = [node for node in module.nodes[ast.ClassDef] if _computes(module, node)]
    if not environments or is_limited(module, project):
        return
    for package in ("stable_baselines3", "gymnasium", "gym"):
        for call in module.calls(package, *VECTORS):
            name = environments[0].name
            yield call, f"{name} computes with torch in each worker, with a thread for every core", "medium"


def _work_before(module, call):
    """The first training call that is sure to run before this one, in the same function, or None."""
    scope = module.scope(call)
    enclosing = {id(node) for node in (call, *module.ancestors(call))}
    for earlier in sorted(module.all_calls, key=lambda node: node.lineno):
        if earlier.lineno >= call.lineno or module.scope(earlier) is not scope or not trains(module, earlier):
            continue
        is_conditional = any(
            isinstance(outer, ast.If | ast.Try | ast.Match)
            and (id(outer) not in enclosing or _branch(module, outer, earlier) != _branch(module, outer, call))
            for outer in module.ancestors(earlier)
        )
        if not is_conditional:
            return earlier
    return None


def _branch(module, outer, node) -> str:
    """The field of a statement that contains a node: its body or its else."""
    child = next(child for child in (node, *module.ancestors(node)) if module.parents.get(child) is outer)
    fields = ((name, value if isinstance(value, list) else [value]) for name, value in ast.iter_fields(outer))
    return next((name for name, values in fields if child in values), "")


def _computes(module, environment: ast.ClassDef) -> bool:
    """Whether a class is an environment whose `step` computes with torch."""
    methods = {node.name: node for node in environment.body if isinstance(node, FUNCTIONS)}
    if not {"step", "reset"} <= set(methods):
        return False
    return any(
        (module.name(call.func) or "").split(".")[0] == "torch"
        and (module.name(call.func) or "").split(".")[-1] in TORCH_OPS
        and module.is_within(call, methods["step"])
        for call in module.all_calls
    )
