"""rlrepro: documented memory and speed problems of reinforcement-learning libraries, reproduced and fixed.

`rlrepro.fixes` holds the fixes, `rlrepro.doctor` finds the problems in a project, `rlrepro.fit` plans memory,
`rlrepro.lab` measures, `rlrepro.evidence` keeps and judges the results, `rlrepro.cases` reproduces the problems, and
`rlrepro.course` runs the notebooks.
"""

__version__ = "0.1.0"
