"""How wrong are plans? Random networks in random updates, each planned, and then run on the CPU.

`python -m rlrepro.cases.two_batch_sizes.error_study` measures what its file of records does not have yet. It can be
stopped at any time.

The peer is xMem (Shi, Pezaros and Elkhatib, arXiv:2510.21048), which estimates the peak memory of training on a GPU
from dynamic analysis on a CPU, evaluated on 25 models, convolutional networks and transformers among them.
"""
