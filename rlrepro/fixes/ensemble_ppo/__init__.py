"""Many PPO learners as one batched network, each learning what Stable-Baselines3 would learn alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"learner": ["EnsemblePPO"]})
