"""RLlib's PPO whose value pass before an update runs without gradients, on at most `minibatch_size` timesteps at a
time."""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "connector": ["ChunkedGAE"],
        "learner": ["ChunkedPPOTorchLearner", "ChunkedValuePass"],
    },
)


def __getattr__(name: str):
    try:
        return _load(name)
    except ImportError as error:
        if name not in __all__:
            raise
        library, releases = TESTED_WITH["ChunkedPPOTorchLearner"]
        installed = next((package.version for package in metadata.distributions(name=library)), "none")
        raise ImportError(
            f"{name} needs RLlib, and was tested with {library} {releases}; found {library} {installed} ({error}): "
            "pip install 'ray[rllib]'"
        ) from error
