"""Many PPO learners as one batched network; each learns what it would learn alone in Stable-Baselines3."""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

_load, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"learner": ["EnsemblePPO"]})


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
