"""torchrl's SliceSampler without the scan of every stored transition. `torchrl_compat` bridges torchrl's releases."""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "prioritized": ["IncrementalPrioritizedSliceSampler"],
        # one module for both, since the first creates the second if `replacement=False`
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
        packages = metadata.distributions(name=library)
        installed = next((package.version for package in packages), f"none: pip install {library}")
        raise ImportError(f"{name} was tested with {library} {releases}; found {installed} ({error})") from error
