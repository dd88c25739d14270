"""Whether a project limits the threads of the processes that it starts."""

import re

from rlrepro.doctor.ast_index import Module
from rlrepro.doctor.call_graph import Reachable
from rlrepro.doctor.process_starts import Start
from rlrepro.doctor.project import Project

INHERITED = re.compile(
    r"OMP_NUM_THREADS|MKL_NUM_THREADS|OMP_WAIT_POLICY|GOMP_SPINCOUNT|threadpool_limits|limit_threads|thread_budget|"
    r"thread_variables|train_many"
)
OWN = re.compile(r"set_num_threads")  # limits this process and its forks, but not spawned processes


def is_limited(module: Module, project: Project, reached: Reachable | None = None, start: Start | None = None) -> bool:
    """Whether the threads of these processes are or may be limited: by an environment variable that is set nearby, also
    in shell scripts, or by torch.set_num_threads in the code that they run or are forked from."""
    if project.mentions(INHERITED, module.path):
        return True
    if reached is not None:
        elsewhere = any(OWN.search(mod.text) for mod in reached.modules if mod is not module)
        if elsewhere or any(OWN.search(_text_of(module, node)) for node in reached.functions):
            return True
    spawned = start is not None and start.method != "fork"
    return not spawned and (
        any(OWN.search(mod.text) for mod in project.imported_by(module))
        or project.mentions(re.compile(rf"(?s)import[^\n]*\b{module.path.stem}\b.*set_num_threads"), module.path)
    )


def _text_of(module: Module, function) -> str:
    lines = module.text.split("\n")
    return "\n".join(lines[getattr(function, "lineno", 1) - 1 : getattr(function, "end_lineno", len(lines))])
