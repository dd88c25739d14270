"""Rules for TorchRL's SliceSampler."""

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
    "a torchrl release whose SliceSampler copies every episode id for each sample",
    words=("SliceSampler",),
    fix="Install torchrl 0.7.0 or later. That alone is not enough: see TR003 to TR005.",
    chapter="03_slice_sampler",
    claims=("SS8",),
)
def old_release(module, project):
    """Before 0.7.0, each call of `sample` copies the episode ids of all stored transitions before it compares them."""
    if reason := project.versions.all_in(module, "torchrl", COPIES_IDS):
        for call in module.calls("torchrl", "SliceSampler"):
            yield (
                call,
                f"torchrl before 0.7.0 copies the ids of all stored transitions per sample ({reason})",
                "high",
            )


@rule(
    "TR002",
    "episodes are separated by ids, although done flags would do",
    words=("SliceSampler",),
    fix="Pass end_key instead of traj_key, if transitions have a done flag and no entry 'episode'.",
    chapter="03_slice_sampler",
    claims=("SS6",),
)
def ids_for_flags(module, project):
    """An episode id takes eight bytes per transition, and each one is compared with the next; a done flag takes one
    byte."""
    for call in _samplers(module):
        if module.argument(call, "traj_key") is not None and not _is_passed(module, call, "end_key"):
            yield (
                call,
                "traj_key compares an id per transition; if transitions have a done flag, end_key is faster",
                "low",
            )


@rule(
    "TR003",
    "a read-only buffer without the cache",
    words=("SliceSampler",),
    fix="SliceSampler(..., cache_values=True)",
    chapter="03_slice_sampler",
    claims=("SS7",),
    autofix=_cached_always,
)
def no_cache(module, project):
    """Each call of `sample` searches for the ends of all episodes again, but in a buffer that does not change they stay
    the same."""
    for call in _samplers(module):
        sampling, writing = _uses(module, call)
        if sampling and not _common_loops(module, sampling, writing) and not _cached(module, call):
            yield (
                call,
                "each sample reads every stored transition, and nothing is written to the buffer in between",
                "medium",
            )


@rule(
    "TR004",
    "a cache that every write invalidates",
    words=("SliceSampler",),
    fix="from rlrepro.fixes import IncrementalSliceSampler as SliceSampler",
    chapter="03_slice_sampler",
    claims=("SS9",),
    autofix=_incremental,
)
def useless_cache(module, project):
    """With `cache_values=True`, every write invalidates the cache, and the next sample reads every stored transition
    again."""
    for call in _samplers(module):
        sampling, writing = _uses(module, call)
        if _common_loops(module, sampling, writing) and _cached(module, call):
            yield call, "cache_values does not help here: each write in the loop invalidates the cache", "high"


@rule(
    "TR005",
    "a buffer that is written and sampled alternately",
    words=("SliceSampler",),
    fix="from rlrepro.fixes import IncrementalSliceSampler as SliceSampler",
    chapter="03_slice_sampler",
    claims=("SS9",),
    autofix=_incremental,
)
def reads_everything(module, project):
    """In every release of torchrl, each sample reads every stored transition, so it takes longer as the buffer
    fills."""
    for call in _samplers(module):
        sampling, writing = _uses(module, call)
        if not sampling and not writing and not _cached(module, call):
            message = (
                "if you write between samples, each sample reads every stored transition: time it as the buffer fills"
            )
            yield call, message, "low"
        if _common_loops(module, sampling, writing) and not _cached(module, call):
            yield (
                call,
                "each sample in the loop reads every stored transition, and takes longer as the buffer fills",
                "medium",
            )


def _is_passed(module, call, name) -> bool:
    """Whether an argument is passed and not None."""
    node = module.argument(call, name)
    return node is not None and module.value(node) is not None


def _samplers(module):
    return [call for call in module.calls("torchrl", "SliceSampler") if not module.spreads(call)]


def _cached(module, call) -> bool:
    return module.value(module.argument(call, "cache_values")) is True


def _uses(module, sampler) -> tuple[list, list]:
    """The calls that sample from the buffer with this sampler, and those that write to it."""
    samplers = _named(module, [sampler])
    holders = [node for node in module.ancestors(sampler) if isinstance(node, ast.Call)]
    for call in module.all_calls:
        argument = module.argument(call, "sampler")
        if argument is not None and _is_one_of(module, argument, samplers):
            holders.append(call)
    buffers = _named(module, holders)

    def on_buffer(*methods):
        return [call for call in module.methods(*methods) if _is_one_of(module, call.func.value, buffers)]

    return on_buffer("sample"), on_buffer(*WRITES)


def _named(module, calls) -> list[tuple[str, ast.AST]]:
    """The variables that the calls' results are assigned to, each with its scope."""
    return [(name, module.scope(call)) for call in calls if (name := module.variable(call))]


def _is_one_of(module, node, variables) -> bool:
    """Whether an expression is one of these variables; attributes are visible in every function."""
    text = ast.unparse(node)
    return any(
        text == name and ("." in name or scope is module.tree or module.is_within(node, scope))
        for name, scope in variables
    )


def _common_loops(module, sampling, writing) -> bool:
    """Whether one loop contains both, or one class has methods for both, which are probably called alternately."""
    inside = {id(node) for call in sampling for node in (*module.loops(call), *_class_of_method(module, call))}
    return any(
        id(node) in inside for call in writing for node in (*module.loops(call), *_class_of_method(module, call))
    )


def _class_of_method(module, call) -> list[ast.AST]:
    """The class whose method contains the call, unless that method is `__init__`."""
    method = module.scope(call)
    parent = module.parents.get(method)
    return [parent] if isinstance(parent, ast.ClassDef) and getattr(method, "name", "") != "__init__" else []
