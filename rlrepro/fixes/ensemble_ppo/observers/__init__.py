"""Observers of an ensemble while it learns: a progress bar, Stable-Baselines3's callbacks, and curves for TensorBoard.

Callbacks, loggers and models of members are Stable-Baselines3's own. This is a separate folder because the ensemble
learns the same without it.
"""

from .loss_curves import LossCurves
from .observers import Observers
from .sb3_model import model_of

__all__ = ["LossCurves", "Observers", "model_of"]
