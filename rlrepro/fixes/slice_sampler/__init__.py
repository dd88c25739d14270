"""torchrl's SliceSampler without the scan of every stored transition. `torchrl_compat` bridges torchrl's releases."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"sampler": ["IncrementalSliceSampler"]})
