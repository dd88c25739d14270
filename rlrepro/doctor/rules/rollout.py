"""Whole rollouts through a network at once."""

import ast

from rlrepro.doctor.finding import rule

NO_GRADIENTS = ("no_grad", "inference_mode")


@rule(
    "RO001",
    "a whole rollout passes through a network at once, in a function that learns in minibatches",
    words=NO_GRADIENTS,
    cure="rlrepro.fixes.in_chunks(network, rows, size=minibatch)",
    chapter="02_logp_old_oom",
    claims=("LO1", "LO2"),
)
def whole_at_once(module, versions):
    """The gradient steps were cut into minibatches because the whole does not fit with gradients. Without gradients it
    takes less, but still in proportion to the rollout: memory is full where nobody set a size."""
    for block in ast.walk(module.tree):
        if not isinstance(block, ast.With) or not any(
            _without_gradients(module, item.context_expr) for item in block.items
        ):
            continue
        cut = _cut_in_loops(module, module.scope(block))
        for call in module.all_calls:
            if not module.is_within(call, block) or module.loops(call) or module.name(call.func):
                continue
            whole = [ast.unparse(each) for each in call.args if ast.unparse(each) in cut]
            if whole and _may_be_network(call):
                message = (
                    f"{ast.unparse(call.func)} gets all rows of {whole[0]} at once; the loop below takes some at a time"
                )
                yield call, message, "medium"


def _without_gradients(module, node) -> bool:
    name = module.name(node.func) if isinstance(node, ast.Call) else None
    return bool(name) and name.split(".")[0] == "torch" and name.split(".")[-1] in NO_GRADIENTS


def _cut_in_loops(module, scope) -> set[str]:
    """What is indexed, or split, by loops of a function: the names of what is taken in parts."""
    found = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            loops = module.loops(node)
            targets = {
                each.id
                for loop in loops
                if hasattr(loop, "target")
                for each in ast.walk(loop.target)
                if isinstance(each, ast.Name)
            }
            if targets & {each.id for each in ast.walk(node.slice) if isinstance(each, ast.Name)}:
                found.add(ast.unparse(node.value))
        if isinstance(node, ast.For) and getattr(getattr(node.iter, "func", None), "attr", "") in ("split", "chunk"):
            found.add(ast.unparse(node.iter.func.value))
    return found


def _may_be_network(call) -> bool:
    """A call of a variable, an attribute or a method named as networks' are; no function that is known to be none."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return not name[:1].isupper() and name not in {
        "len",
        "print",
        "sum",
        "min",
        "max",
        "list",
        "range",
        "float",
        "int",
        "type",
    }
