"""A Sphinx extension: pages ask no other server for anything, load nothing that they do not need, and begin in the
reader's own light or dark mode."""


def _page(app, pagename, templatename, context, doctree):
    context["default_mode"] = "auto"
    # Thebe would start a kernel from another server; its theme declares it twice, which is an error in the console.
    needless = ["thebe"] if app.env.get_domain("math").has_equations(pagename) else ["thebe", "mathjax"]
    context["script_files"] = [
        script
        for script in context.get("script_files", ())
        if not any(name in f"{script.filename} {script.attributes}" for name in needless)
    ]


def setup(app):
    app.connect("html-page-context", _page, priority=900)
    return {"parallel_read_safe": True}
