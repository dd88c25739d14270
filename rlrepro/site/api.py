"""Pages of an importable package, from its docstrings, by Sphinx's autodoc."""

import importlib
import inspect


def api(package: str) -> str:
    """MyST for each public name of the package. A name that can't be imported over the installed releases is named with
    the reason in place of its documentation."""
    module = importlib.import_module(package)
    blocks = []
    for name in sorted(module.__all__, key=str.lower):
        try:
            found = getattr(module, name)
        except ImportError as error:
            blocks.append(f"`{package}.{name}`\n: {error}")
            continue
        if not callable(found):
            blocks.append(f"`{package}.{name}`\n: {', '.join(map(repr, found))}")
            continue
        lines = [f".. autofunction:: {package}.{name}"]
        if inspect.isclass(found):
            lines = [f".. autoclass:: {package}.{name}", "   :members:", "   :show-inheritance:"]
        blocks.append("```{eval-rst}\n" + "\n".join(lines) + "\n```")
    return "\n\n".join(blocks)
