"""The site: executed notebooks, prose and records become a Jupyter Book.

`scripts` fetches the two scripts that pages need, once; `stage` puts the book's source together; `machines` adds the
figures of the reference machines; `build` calls Jupyter Book.
"""
