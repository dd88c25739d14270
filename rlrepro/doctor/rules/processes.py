"""What goes wrong when several processes compute with torch."""

import ast
import re

from rlrepro.doctor.edits import before_imports
from rlrepro.doctor.finding import rule

TORCH = {
    "torch",
    "stable_baselines3",
    "sb3_contrib",
    "tianshou",
    "torchrl",
    "tensordict",
    "lightning",
    "transformers",
    "pearl",
}
LIMITED = re.compile(
    r"OMP_NUM_THREADS|MKL_NUM_THREADS|OMP_WAIT_POLICY|GOMP_SPINCOUNT|set_num_threads|threadpool_limits|"
    r"limit_threads|thread_budget|thread_variables|train_many"
)
POOLS = ("Pool", "ProcessPoolExecutor", "spawn", "start_processes")
PROCESS_PACKAGES = ("multiprocessing", "concurrent", "torch")
OTHER_START = re.compile(r"(set_start_method|get_context)\(\s*(method\s*=\s*)?['\"](spawn|forkserver)|mp_context")
WORK = ("backward", "learn", "step", "cuda", "matmul", "mm")
TENSORS = {
    "randn",
    "rand",
    "zeros",
    "ones",
    "tensor",
    "matmul",
    "mm",
    "full",
    "empty",
    "arange",
    "as_tensor",
    "from_numpy",
}
VECTORS = ("SubprocVecEnv", "AsyncVectorEnv")


def _one_thread(module, call):
    """Where the trainings are in the text itself. Processes inherit the variable, and torch reads it when it is
    imported."""
    if not _trains(module):
        return []
    return before_imports(
        module, 'import os\n\nos.environ.setdefault("OMP_NUM_THREADS", "1")  # a thread for each training'
    )


@rule(
    "PT001",
    "several trainings at once, each with a thread for every core",
    words=("multiprocessing", "concurrent", "subprocess"),
    cure="OMP_NUM_THREADS=1 before torch is imported, or torch.set_num_threads(1) first in each worker, or "
    "rlrepro.fixes.train_many",
    chapter="04_parallel_training",
    claims=("PT1", "PT3"),
    fix=_one_thread,
)
def no_limit(module, versions):
    """Each process computes with as many threads as there are cores, and threads that wait for each other keep a core
    busy while they do."""
    if LIMITED.search(module.text) or any(LIMITED.search(text) for text in module.neighbours()):
        return
    uses_torch = bool(module.packages() & TORCH)
    for call, several in _starts(module):
        if several and (uses_torch or module.name(call.func) == "subprocess.Popen"):
            confidence = "high" if uses_torch and _trains(module) else "medium"
            yield call, "processes are started here and nothing limits their threads", confidence


@rule(
    "PT002",
    "fork after torch has computed",
    words=("multiprocessing", "concurrent"),
    cure='multiprocessing.get_context("spawn"), or start the processes before torch computes anything',
    chapter="04_parallel_training",
)
def fork_after_work(module, versions):
    """The child of a process that has computed with several threads believes that it has them too, but threads are not
    copied: it may wait for them for ever."""
    if OTHER_START.search(module.text) or "torch" not in module.packages():
        return
    for call, _ in _starts(module):
        name = module.name(call.func) or ""
        if name.split(".")[0] in ("multiprocessing", "concurrent") and (work := _work_before(module, call)):
            yield call, f"forks a process that has computed with torch in line {work.lineno}", "medium"


@rule(
    "PT003",
    "the number of threads is set too late",
    words=("set_num_",),
    cure="Call torch.set_num_threads before anything is computed, or set OMP_NUM_THREADS before torch is imported.",
    chapter="04_parallel_training",
)
def too_late(module, versions):
    """What was computed before ran with a thread for every core; set_num_interop_threads even raises after it."""
    for call in module.calls("torch", "set_num_threads", "set_num_interop_threads"):
        if work := _work_before(module, call):
            yield call, f"torch has computed before, in line {work.lineno}", "medium"


@rule(
    "PT004",
    "environment workers that import torch with its default threads",
    words=VECTORS,
    cure="torch.set_num_threads(1) first in the function that makes the environment, or OMP_NUM_THREADS=1",
    chapter="04_parallel_training",
)
def workers(module, versions):
    """Workers of SubprocVecEnv and AsyncVectorEnv are processes. Where an environment computes with torch, each has a
    thread for every core."""
    if LIMITED.search(module.text):
        return
    environments = [
        node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef) and _computes(module, node)
    ]
    if not environments:
        return
    for package in ("stable_baselines3", "gymnasium", "gym"):
        for call in module.calls(package, *VECTORS):
            name = environments[0].name
            yield call, f"{name} computes with torch in each worker, with a thread for every core", "medium"


def _starts(module):
    """Calls that start processes, and whether several."""
    for call in module.all_calls:
        name = module.name(call.func)
        last = name.split(".")[-1] if name else call.func.attr if isinstance(call.func, ast.Attribute) else ""
        package = name.split(".")[0] if name else ""
        if package in PROCESS_PACKAGES and last in POOLS and (package != "torch" or "multiprocessing" in name):
            yield call, module.value(module.argument(call, "processes", 0)) != 1
        elif package in ("multiprocessing", "torch") and last == "Process":
            yield call, bool(module.loops(call))
        elif package == "subprocess" and last == "Popen":  # the others wait until the command has ended
            yield call, bool(module.loops(call)) and _runs_training(module, call)
        elif not name and last in ("Pool", "Process") and _is_context(module, call.func.value):
            yield call, last == "Pool" or bool(module.loops(call))


def _is_context(module, node) -> bool:
    text = ast.unparse(node)
    return any(module.variable(each) == text for each in module.calls("multiprocessing", "get_context")) or any(
        each is node for each in module.calls("multiprocessing", "get_context")
    )


def _runs_training(module, call) -> bool:
    """Whether a command is Python with a script whose name says that it trains."""
    text = " ".join(ast.unparse(each) for each in call.args)
    if call.args and isinstance(call.args[0], ast.Name):
        stored = module.stores.get(call.args[0].id)
        text += f" {ast.unparse(stored)}" if stored is not None else ""
    return bool(re.search(r"python|sys\.executable", text)) and bool(
        re.search(r"train|ppo|sac|dqn", text, re.IGNORECASE)
    )


def _trains(module) -> bool:
    return any(True for _ in module.methods("learn", "backward", "fit"))


def _work_before(module, call):
    """The first call in the same function, before this one, that computes with torch; None where there is none."""
    scope = module.scope(call)
    for each in sorted(module.all_calls, key=lambda node: node.lineno):
        if each.lineno >= call.lineno or module.scope(each) is not scope:
            continue
        name = module.name(each.func) or ""
        if name.split(".")[0] == "torch" and name.split(".")[-1] in TENSORS:
            return each
        if not name and isinstance(each.func, ast.Attribute) and each.func.attr in ("backward", "learn"):
            return each
    return None


def _computes(module, environment: ast.ClassDef) -> bool:
    """Whether a class is an environment whose methods call torch."""
    methods = {node.name for node in environment.body if isinstance(node, ast.FunctionDef)}
    if not {"step", "reset"} <= methods:
        return False
    return any(
        (module.name(call.func) or "").split(".")[0] == "torch" and module.is_within(call, environment)
        for call in module.all_calls
    )
