"""Imported by the kernel of each notebook that is run, to start and end it faster."""

import atexit
import gc

from rlrepro.lab.garbage_collector import importing

with importing():
    import torch  # noqa: F401  # as all notebooks do

atexit.register(gc.freeze)  # a last collection can take seconds
