"""How wrong are plans? Random networks in random updates, each planned, and then run on the CPU.

`python -m rlrepro.cases.two_batch_sizes.error_study` measures what its file of records does not have yet. It can be
stopped at any time.
"""
