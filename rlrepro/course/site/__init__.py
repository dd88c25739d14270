"""The site: executed notebooks, prose and records become a Jupyter Book.

`scripts` fetches what moves the sliders, once; `stage` puts the book's source together; `machines` adds the
figures of the reference machines; `build` calls Jupyter Book.
"""
