"""Pages of an importable package, from its docstrings, by Sphinx's autodoc."""

import ast
import importlib
import inspect
from pathlib import Path

from rlrepro.course.site.docstrings import as_restructured_text


def api(package: str) -> str:
    """MyST for each public name of the package."""
    module = importlib.import_module(package)
    blocks = []
    for name in sorted(module.__all__, key=str.lower):
        try:
            found = getattr(module, name)
        except ImportError:  # it is for another release, or for a library that is not here
            blocks.append(_evaluated(_from_source(module, name)))
            continue
        if not callable(found):
            blocks.append(f"`{package}.{name}`\n: {', '.join(map(repr, found))}")
            continue
        lines = [f".. autofunction:: {package}.{name}"]
        if inspect.isclass(found):
            lines = [f".. autoclass:: {package}.{name}", "   :members:", "   :show-inheritance:"]
        blocks.append(_evaluated(lines))
    return "\n\n".join(blocks)


def _evaluated(lines: list[str]) -> str:
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"


def _from_source(module, name: str) -> list[str]:
    """A class that can't be imported here, as its file documents it."""
    for path in Path(module.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                told = as_restructured_text(ast.get_docstring(node).splitlines())
                return [f".. py:class:: {module.__name__}.{name}", "", *(f"   {line}" for line in told)]
    raise LookupError(f"no class {name} in {module.__name__}")
