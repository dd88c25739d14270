"""A Sphinx extension: pages ask no other server for anything, load nothing that they do not need, and begin in the
reader's own light or dark mode. Formulas are MathML, which browsers set by themselves."""

from docutils import nodes
from latex2mathml.converter import convert


def _page(app, pagename, templatename, context, doctree):
    context["default_mode"] = "auto"
    # Thebe would start a kernel from another server; its theme declares it twice, which is an error in the console.
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
