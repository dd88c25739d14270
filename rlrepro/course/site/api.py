"""The API page of a package: MyST that calls Sphinx's autodoc for each public name."""

import ast
import importlib
import inspect
from pathlib import Path
from textwrap import indent


def api(package: str) -> str:
    """MyST for each public name of the package."""
    module = importlib.import_module(package)
    blocks = []
    for name in sorted(getattr(module, "NAMES", None) or module.__all__, key=str.lower):
        try:
            value = getattr(module, name)
        except ImportError:  # for another release, or for a library that is not installed
            blocks.append(_rst(f".. py:class:: {package}.{name}", "", _docstring_in_source(module, name)))
            continue
        if inspect.isclass(value):
            blocks.append(_rst(f".. autoclass:: {package}.{name}", ":members:", ":show-inheritance:"))
        elif callable(value):
            blocks.append(_rst(f".. autofunction:: {package}.{name}"))
        else:
            blocks.append(f"`{package}.{name}`\n: {', '.join(map(repr, value))}")
    return "\n\n".join(blocks)


def _rst(directive: str, *body: str) -> str:
    """A directive of reStructuredText, as MyST."""
    return "\n".join(["```{eval-rst}", directive, indent("\n".join(body), "   "), "```"])


def _docstring_in_source(module, name: str) -> str:
    for path in Path(module.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return ast.get_docstring(node)
    raise LookupError(f"no class {name} in {module.__name__}")
