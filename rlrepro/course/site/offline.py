"""A Sphinx extension for pages that load nothing from other servers, and start in the reader's light or dark mode.

Formulas become MathML, which browsers render without a script.
"""

from docutils import nodes
from latex2mathml.converter import convert


def _page(app, pagename, templatename, context, doctree):
    context["default_mode"] = "auto"
    # Thebe would start a kernel on another server; the theme declares it twice, which is an error in the console.
    context["script_files"] = [
        script for script in context.get("script_files", ()) if "thebe" not in f"{script.filename} {script.attributes}"
    ]


def _inline(translator, node):
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="scroll">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("html-page-context", _page, priority=900)
    return {"parallel_read_safe": True}
