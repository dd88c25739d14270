"""A Sphinx extension for pages that load nothing from other servers, start in the reader's light or dark mode, and name
their controls for screen readers.

Formulas become MathML, which browsers render without a script.
"""

import re
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert


def _page(app, pagename, templatename, context, doctree):
    context["default_mode"] = "auto"
    # Thebe would start a kernel on another server; the theme declares it twice, which is an error in the console.
    context["script_files"] = [
        script for script in context.get("script_files", ()) if "thebe" not in f"{script.filename} {script.attributes}"
    ]


def _lighten(app, exception):
    """Remove a script of 1.5 MB that draws icons, which a font draws as well, and the search index from pages that do
    not search."""
    for path in Path(app.outdir).rglob("*.html"):
        unused = "fontawesome" if path.name == "search.html" else "fontawesome|searchtools|language_data|searchindex"
        page = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf"<script[^>]*({unused})\.js[^>]*></script>", "", page), encoding="utf-8")


def _inline(translator, node):
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="scroll">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_js_file("../scripts/labels.js", loading_method="defer")
    app.connect("html-page-context", _page, priority=900)
    app.connect("build-finished", _lighten)
    return {"parallel_read_safe": True}
