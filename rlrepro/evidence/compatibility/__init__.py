"""Which fix works with which release: each is tested in a separate environment per release of its library.

`environments.toml` lists what is tested, `environments` creates each environment and runs the fix's own tests in it,
and `table` writes the results into the book and into the fixes.
"""
