"""What goes wrong when several processes compute with torch."""

import ast

from rlrepro.doctor.edits import before_imports
from rlrepro.doctor.finding import rule
from rlrepro.doctor.module import FUNCTIONS
from rlrepro.doctor.reach import Reached
from rlrepro.doctor.starts import starts_of
from rlrepro.doctor.thread_limits import is_limited
from rlrepro.doctor.work import WORK, trains, work_of

VECTORS = ("SubprocVecEnv", "AsyncVectorEnv")


def _one_thread(module, call):
    """Where the training runs are in the file itself. Processes inherit the variable, and torch reads it when it is
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
    fix="OMP_NUM_THREADS=1 before torch is imported, or torch.set_num_threads(1) first in each worker, or "
    "rlrepro.fixes.train_many",
    chapter="04_parallel_training",
    claims=("PT1", "PT3"),
    autofix=_one_thread,
)
def no_limit(module, project):
    """Each process computes with as many threads as there are cores, and threads that wait for each other keep a core
    busy while they do."""
    seen = set()
    for start in starts_of(module, project):
        if not start.several or start.target is None or start.call in seen:
            continue
        reached = Reached(project, start.target)
        work = work_of(project, module, start.target, reached, start.method)
        if work is not None and not is_limited(module, project, reached, start):
            seen.add(start.call)
            line = work.node.lineno
            where = f"line {line}" if work.module is module else f"{work.module.path.name}:{line}"
            message = f"each of these processes {work.what} ({where}) with one thread per core"
            on_gpu = any("cuda" in each.text for each in (module, start.target.module))
            yield start.call, message, "low" if on_gpu else "high" if work.sure else "medium"


@rule(
    "PT002",
    "fork after torch has computed",
    words=("multiprocessing", "concurrent"),
    fix='multiprocessing.get_context("spawn"), or start the processes before torch computes anything',
    chapter="04_parallel_training",
)
def fork_after_work(module, project):
    """The child of a process that has computed with several threads believes that it has them too, but threads are not
    copied: it may wait for them for ever."""
    if "torch" not in module.packages():
        return
    for start in starts_of(module, project):
        if start.method == "fork" and start.package != "torch" and (work := _work_before(module, start.call)):
            yield start.call, f"forks a process that has trained with torch (line {work.lineno})", "medium"


@rule(
    "PT003",
    "the number of threads is set too late",
    words=("set_num_",),
    fix="Call torch.set_num_threads before anything is computed, or set OMP_NUM_THREADS before torch is imported.",
    chapter="04_parallel_training",
)
def too_late(module, project):
    """What was computed before ran with one thread per core; set_num_interop_threads even raises after it."""
    for call in module.calls("torch", "set_num_threads", "set_num_interop_threads"):
        if work := _work_before(module, call):
            yield call, f"torch has computed before, in line {work.lineno}", "medium"


@rule(
    "PT004",
    "environment workers that compute with torch's default threads",
    words=VECTORS,
    fix="torch.set_num_threads(1) first in the function that makes the environment, or OMP_NUM_THREADS=1",
    chapter="04_parallel_training",
)
def workers(module, project):
    """Workers of SubprocVecEnv and AsyncVectorEnv are processes. Where an environment computes with torch, each has one
    thread per core."""
    environments = [node for node in module.nodes[ast.ClassDef] if _computes(module, node)]
    if not environments or is_limited(module, project):
        return
    for package in ("stable_baselines3", "gymnasium", "gym"):
        for call in module.calls(package, *VECTORS):
            name = environments[0].name
            yield call, f"{name} computes with torch in each worker, with one thread per core", "medium"


def _work_before(module, call):
    """The first call that certainly runs before this one in the same function and trains; None where there is none."""
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
    """In which part of a statement a node is: its body, its else."""
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
        and (module.name(call.func) or "").split(".")[-1] in WORK
        and module.is_within(call, methods["step"])
        for call in module.all_calls
    )
