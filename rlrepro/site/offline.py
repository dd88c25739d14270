"""A Sphinx extension: pages ask no other server for anything, and begin in the reader's own light or dark mode."""


def _page(app, pagename, templatename, context, doctree):
    context["default_mode"] = "auto"
    # Thebe would start a kernel from another server; its theme declares it twice, which is an error in the console.
    context["script_files"] = [
        script
        for script in context.get("script_files", ())
        if "thebe" not in str(getattr(script, "attributes", script))
        and "thebe" not in str(getattr(script, "filename", "") or "")
    ]


def setup(app):
    app.connect("html-page-context", _page, priority=900)
    return {"parallel_read_safe": True}
