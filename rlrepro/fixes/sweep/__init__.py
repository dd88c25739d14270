"""Many PPO configurations at once: as ensembles where they can be batched, otherwise each alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"runner": ["Trained", "sweep"]})
