"""rlrepro: five documented problems of reinforcement-learning libraries, reproduced, explained and cured.

`rlrepro.lab` holds the instruments, `rlrepro.cases` the problems, `rlrepro.fixes` the cures.
"""

__version__ = "0.1.0"
