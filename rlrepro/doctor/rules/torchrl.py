"""What goes wrong with TorchRL's SliceSampler."""

import ast

from rlrepro.doctor.edits import imported, replaced, with_argument
from rlrepro.doctor.finding import rule

COPIES_IDS = "<0.7"
WRITES = ("extend", "add")


def _cached_always(module, call):
    return with_argument(module, call, "cache_values", "True")


def _incremental(module, call):
    new = imported(module, "from rlrepro.fixes import IncrementalSliceSampler", beside="torchrl")
    return [] if new is None else [replaced(call.func, "IncrementalSliceSampler"), *new]


@rule(
    "TR001",
    "a torchrl whose SliceSampler copies every id for each sample",
    words=("SliceSampler",),
    fix="Install torchrl 0.7.0 or later; and read TR003 to TR005, since that alone does not end it.",
    chapter="03_slice_sampler",
    claims=("SS8",),
)
def old_release(module, project):
    """Before 0.7.0 a sample copies the episode ids of all stored rows before it compares them."""
    if why := project.versions.all_in(module, "torchrl", COPIES_IDS):
        for call in module.calls("torchrl", "SliceSampler"):
            yield call, f"torchrl before 0.7.0 copies the ids of all stored transitions per sample, and {why}", "high"


@rule(
    "TR002",
    "episodes are told apart by ids where done flags would do",
    words=("SliceSampler",),
    fix="Give end_key in the place of traj_key, if rows carry a flag where an episode ends and no entry 'episode'.",
    chapter="03_slice_sampler",
    claims=("SS6",),
)
def ids_for_flags(module, project):
    """Ids of eight bytes are compared row by row; a done flag is one byte."""
    for call in _samplers(module):
        if module.argument(call, "traj_key") is not None and not _given(module, call, "end_key"):
            yield call, "traj_key compares an id a row; if rows carry a done flag, end_key is faster", "low"


@rule(
    "TR003",
    "a buffer that is only read, without the cache",
    words=("SliceSampler",),
    fix="SliceSampler(..., cache_values=True)",
    chapter="03_slice_sampler",
    claims=("SS7",),
    autofix=_cached_always,
)
def no_cache(module, project):
    """Each sample looks for the ends of all episodes again. In a buffer that does not change they stay in place."""
    for call in _samplers(module):
        sampling, writing = _uses(module, call)
        if sampling and not _common_loops(module, sampling, writing) and not _cached(module, call):
            yield (
                call,
                "each sample reads every stored row, and the buffer is not written to while it is sampled",
                "medium",
            )


@rule(
    "TR004",
    "a cache that each write throws away",
    words=("SliceSampler",),
    fix="from rlrepro.fixes import IncrementalSliceSampler as SliceSampler",
    chapter="03_slice_sampler",
    claims=("SS9",),
    autofix=_incremental,
)
def useless_cache(module, project):
    """With `cache_values=True` a write throws the cache away, and the next sample reads every stored row again."""
    for call in _samplers(module):
        sampling, writing = _uses(module, call)
        if _common_loops(module, sampling, writing) and _cached(module, call):
            yield call, "cache_values helps nothing here: each write in the loop throws the cache away", "high"


@rule(
    "TR005",
    "a buffer that is written to and sampled in turn",
    words=("SliceSampler",),
    fix="from rlrepro.fixes import IncrementalSliceSampler as SliceSampler",
    chapter="03_slice_sampler",
    claims=("SS9",),
    autofix=_incremental,
)
def reads_everything(module, project):
    """Each sample reads every stored row, so that it takes longer the fuller the buffer is, in every release."""
    for call in _samplers(module):
        sampling, writing = _uses(module, call)
        if not sampling and not writing and not _cached(module, call):
            message = "if it is written to between samples, each reads every stored row: time one as the buffer fills"
            yield call, message, "low"
        if _common_loops(module, sampling, writing) and not _cached(module, call):
            yield call, "each sample in the loop reads every stored row, and takes longer as the buffer fills", "medium"


def _given(module, call, name) -> bool:
    """Whether an argument is there and not None."""
    node = module.argument(call, name)
    return node is not None and module.value(node) is not None


def _samplers(module):
    return [call for call in module.calls("torchrl", "SliceSampler") if not module.spreads(call)]


def _cached(module, call) -> bool:
    return module.value(module.argument(call, "cache_values")) is True


def _uses(module, sampler) -> tuple[list, list]:
    """Where the buffer with this sampler is sampled, and where it is written to."""
    samplers = _named(module, [sampler])
    holders = [each for each in module.ancestors(sampler) if isinstance(each, ast.Call)]
    for call in module.all_calls:
        given = module.argument(call, "sampler")
        if given is not None and _is_one_of(module, given, samplers):
            holders.append(call)
    buffers = _named(module, holders)

    def on_buffer(*methods):
        return [call for call in module.methods(*methods) if _is_one_of(module, call.func.value, buffers)]

    return on_buffer("sample"), on_buffer(*WRITES)


def _named(module, calls) -> list[tuple[str, ast.AST]]:
    """The variables that results of calls are given to, each with the function, or the module, whose it is."""
    return [(name, module.scope(call)) for call in calls if (name := module.variable(call))]


def _is_one_of(module, node, variables) -> bool:
    """Whether an expression is one of these variables; one with a dot may be used in any function."""
    text = ast.unparse(node)
    return any(
        text == name and ("." in name or scope is module.tree or module.is_within(node, scope))
        for name, scope in variables
    )


def _common_loops(module, sampling, writing) -> bool:
    """Whether one loop holds both, or one class has methods for either: somebody calls them in turn."""
    inside = {id(each) for call in sampling for each in (*module.loops(call), *_methods_class(module, call))}
    return any(id(each) in inside for call in writing for each in (*module.loops(call), *_methods_class(module, call)))


def _methods_class(module, call) -> list[ast.AST]:
    """The class in one of whose methods a call is, unless that is the one that makes it."""
    method = module.scope(call)
    holder = module.parents.get(method)
    return [holder] if isinstance(holder, ast.ClassDef) and getattr(method, "name", "") != "__init__" else []
