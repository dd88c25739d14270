"""torchrl's SliceSampler without the scan of every stored transition. `torchrl_compat` bridges torchrl's releases."""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "prioritized": ["IncrementalPrioritizedSliceSampler"],
        # one module for both, since the first makes the second where `replacement=False` is given
        "without_replacement": ["IncrementalSliceSampler", "IncrementalSliceSamplerWithoutReplacement"],
    },
)


def __getattr__(name: str):
    try:
        return _load(name)
    except ImportError as error:
        if name not in TESTED_WITH:
            raise
        library, releases = TESTED_WITH[name]
        found = next((each.version for each in metadata.distributions(name=library)), "none")
        raise ImportError(f"{name} was tested with {library} {releases}; found {found} ({error})") from error
