"""What works with what: each fix tried with releases of its library, in environments of their own.

`environments.toml` says what is tried, `environments` makes each environment and runs the fix's own tests in it, and
`table` writes what was found into the book and into the fixes.
"""
