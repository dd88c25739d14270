"""Watch a training run, and report which of these problems it has.

from rlrepro.doctor import watch

with watch():
    train()
"""
