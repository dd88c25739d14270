"""What goes wrong when several processes compute with torch."""

import ast

from rlrepro.doctor.ast_index import FUNCTIONS
from rlrepro.doctor.call_graph import Reachable
from rlrepro.doctor.edits import before_imports
from rlrepro.doctor.finding import rule
from rlrepro.doctor.process_starts import process_starts
from rlrepro.doctor.thread_limits import is_limited
from rlrepro.doctor.workload import TORCH_OPS, trains, workload_of

VECTORS = ("SubprocVecEnv", "AsyncVectorEnv")


def _one_thread(module, call):
    """Only where the file itself contains the training. Processes inherit the variable, and torch reads it when it is
    imported."""
    if not any(trains(module, each) for each in module.all_calls):
        return []
    return before_imports(
        module, 'import os\n\nos.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread per training process'
    )


@rule(
    "PT001",
    "several training processes, each with one thread per core",
    words=("multiprocessing", "concurrent", "subprocess"),
    fix="Set OMP_NUM_THREADS=1 before torch is imported, call torch.set_num_threads(1) first in each worker, or use "
    "rlrepro.fixes.train_many.",
    chapter="04_parallel_training",
    claims=("PT1", "PT3"),
    autofix=_one_thread,
)
def no_limit(module, project):
    """Each process uses as many threads as there are cores, and threads that wait for each other keep a core busy
    while they do."""
    seen = set()
    for start in process_starts(module, project):
        if not start.several or start.target is None or start.call in seen:
            continue
        reached = Reachable(project, start.target)
        work = workload_of(project, module, start.target, reached, start.method)
        if work is not None and not is_limited(module, project, reached, start):
            seen.add(start.call)
            line = work.node.lineno
            where = f"line {line}" if work.module is module else f"{work.module.path.name}:{line}"
            message = f"each of these processes {work.what} ({where}) with one thread per core"
            on_gpu = any("cuda" in each.text for each in (module, start.target.module))
            yield start.call, message, "low" if on_gpu else "high" if work.sure else "medium"


@rule(
    "PT002",
    "processes are forked after torch has run computations",
    words=("multiprocessing", "concurrent"),
    fix='Use multiprocessing.get_context("spawn"), or start the processes before torch computes anything.',
    chapter="04_parallel_training",
)
def fork_after_work(module, project):
    """The forked child of a process that has computed with several threads assumes that it has those threads too, but
    fork does not copy them: the child may wait for them forever."""
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
    """Anything computed earlier ran with one thread per core, and set_num_interop_threads even raises an error by
    then."""
    for call in module.calls("torch", "set_num_threads", "set_num_interop_threads"):
        if work := _work_before(module, call):
            yield call, f"torch already computes in line {work.lineno}", "medium"


@rule(
    "PT004",
    "environment workers that compute with torch's default threads",
    words=VECTORS,
    fix="Call torch.set_num_threads(1) first in the function that makes the environment, or set OMP_NUM_THREADS=1.",
    chapter="04_parallel_training",
)
def workers(module, project):
    """SubprocVecEnv and AsyncVectorEnv run their workers as processes. If the environment computes with torch, each
    worker does so with one thread per core."""
    environments = [node for node in module.nodes[ast.ClassDef] if _computes(module, node)]
    if not environments or is_limited(module, project):
        return
    for package in ("stable_baselines3", "gymnasium", "gym"):
        for call in module.calls(package, *VECTORS):
            name = environments[0].name
            yield call, f"{name} computes with torch in each worker, with one thread per core", "medium"


def _work_before(module, call):
    """The first training call that certainly runs before this one, in the same function; None if there is none."""
    scope = module.scope(call)
    later = {id(each) for each in (call, *module.ancestors(call))}
    for each in sorted(module.all_calls, key=lambda node: node.lineno):
        if each.lineno >= call.lineno or module.scope(each) is not scope or not trains(module, each):
            continue
        sometimes = any(
            isinstance(outer, ast.If | ast.Try | ast.Match)
            and (id(outer) not in later or _branch(module, outer, each) != _branch(module, outer, call))
            for outer in module.ancestors(each)
        )
        if not sometimes:
            return each
    return None


def _branch(module, outer, node) -> str:
    """Which part of a statement a node is in: its body or its else."""
    inner = next(each for each in (node, *module.ancestors(node)) if module.parents.get(each) is outer)
    fields = ((name, value if isinstance(value, list) else [value]) for name, value in ast.iter_fields(outer))
    return next((name for name, values in fields if inner in values), "")


def _computes(module, environment: ast.ClassDef) -> bool:
    """Whether a class is an environment whose step runs a network or multiplies matrices."""
    methods = {node.name: node for node in environment.body if isinstance(node, FUNCTIONS)}
    if not {"step", "reset"} <= set(methods):
        return False
    return any(
        (module.name(call.func) or "").split(".")[0] == "torch"
        and (module.name(call.func) or "").split(".")[-1] in TORCH_OPS
        and module.is_within(call, methods["step"])
        for call in module.all_calls
    )
