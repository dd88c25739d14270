"""Recognize calls of networks by their names."""

import ast
import re
from collections.abc import Iterator

from rlrepro.doctor.ast_index import Module, last_name, walk, words_of

# Words in the name of a network, and words whose presence means that it is something else.
NETWORK = {
    "actor",
    "critic",
    "policy",
    "net",
    "network",
    "model",
    "agent",
    "ac",
    "encoder",
    "vf",
    "pi",
    "discriminator",
}
NETWORK |= {"baseline", "predictor", "critics", "value", "module", "nn", "qnet", "pinet", "vnet", "disc"}
NOT_NETWORK = {"env", "envs", "buffer", "loss", "losses", "optim", "optimizer", "scaler", "normalizer", "rms", "log"}
NOT_NETWORK |= {"logger", "scheduler", "config", "cfg", "save", "load", "trainer", "normalizers", "normaliser", "norm"}
NOT_NETWORK |= {"dict", "loader"}
METHODS = {"forward", "evaluate_actions", "evaluate", "get_value", "get_values", "get_action_and_value", "act", "v"}
METHODS |= {"predict_values", "compute_values", "evaluate_action", "get_dist", "actor", "critic", "policy", "predict"}
METHODS |= {"get_distribution", "get_action_log_prob", "get_log_prob", "action_log_prob", "pi", "get_policy", "value"}
KNOWN = {"torch", "numpy", "tianshou", "torchrl", "gym", "gymnasium", "random", "math"}


GRADIENTS_OFF = re.compile(r"\b(no_grad|inference_mode|set_grad_enabled\(False)")


def is_without_graph(module: Module, call: ast.Call) -> bool:
    """Whether the call is under no_grad or similar. Without a graph, a rollout of usual length takes little memory."""
    parts = (
        part
        for node in module.ancestors(call)
        for name in ("items", "decorator_list")
        for part in getattr(node, name, ())
    )
    return any(GRADIENTS_OFF.search(ast.unparse(part)) for part in parts)


def network_calls(module: Module, function, words=frozenset(NETWORK)) -> Iterator[ast.Call]:
    """The calls of networks in a piece of code."""
    for node in walk(function):
        if isinstance(node, ast.Call) and is_network(module, node.func, words):
            yield node


def is_network(module: Module, func, words=frozenset(NETWORK)) -> bool:
    """Whether a name is typical of a network or its methods: a guess that is rarely wrong."""
    name = last_name(func)
    if not name or name[:1].isupper() or (module.name(func) or "").split(".")[0] in KNOWN:
        return False
    if isinstance(func, ast.Attribute) and name in METHODS:
        return (
            bool(words_of(ast.unparse(func.value)) & (NETWORK | {"self"}))
            and not words_of(ast.unparse(func)) & NOT_NETWORK
        )
    return (
        bool(words_of(name) & NETWORK)
        and not words_of(ast.unparse(func)) & NOT_NETWORK
        and not name.startswith(("get_", "_"))
    )


def arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]
