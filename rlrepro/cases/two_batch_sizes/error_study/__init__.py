"""How wrong are plans? Random updates of random networks are planned, and then run on the CPU.

`python -m rlrepro.cases.two_batch_sizes.error_study` measures the updates that its file of records lacks. It can be
stopped at any time.

A comparable tool is xMem (Shi, Pezaros and Elkhatib, arXiv:2510.21048), which estimates the peak memory of training on
a GPU by dynamic analysis on a CPU, and was evaluated on 25 models, including convolutional networks and transformers.
"""
