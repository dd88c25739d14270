"""Watch a training that runs, and say which of these problems it has.

from rlrepro.doctor import watch

with watch():
    train()
"""
