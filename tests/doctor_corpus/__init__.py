"""Labelled texts for the doctor: with a problem, and innocent ones that look like it.

TROUBLED  title: (codes, releases, text)
INNOCENT  title: (releases, text)
DOUBTFUL, BROKEN  title: (code, files, change): a finding of low confidence, and files after which it has more
"""

from . import actions, instances, processes, rllib, rollouts, tensors, threads, tianshou, torchrl
from .broken import BROKEN
from .doubtful import DOUBTFUL

__all__ = ["BROKEN", "DOUBTFUL", "INNOCENT", "TROUBLED"]


def _together(*parts):
    titles = [title for part in parts for title in part]
    assert len(titles) == len(set(titles)), "two texts have the same title"
    return {title: part[title] for part in parts for title in part}


_SUBJECTS = (tianshou, torchrl, processes, instances, threads, actions, rollouts, tensors, rllib)
TROUBLED = _together(*(subject.TROUBLED for subject in _SUBJECTS))
INNOCENT = _together(*(subject.INNOCENT for subject in _SUBJECTS))
