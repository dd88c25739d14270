"""The site: executed notebooks, prose and records become a Jupyter Book.

`assemble` puts the book's source together: `template_context` has what the prose may refer to, `front_page` makes cards
and tiles, `reference_pages` and `api` document commands, rules and packages, `reference_tabs` adds the figures of the
reference machines. `build` calls Jupyter Book, with `offline` as a Sphinx extension.
"""
