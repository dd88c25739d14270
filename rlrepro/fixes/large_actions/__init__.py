"""Q-learning and soft actor-critic over tens of thousands of actions. FactoredQ needs only torch, SharedActionBuffer
needs torchrl, the learners need tensordict, and PearlFactoredQ needs Pearl."""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "factored_dqn": ["FactoredDQN"],
        "factored_q": ["FactoredQ", "expected_minimum"],
        "factored_sac": ["FactoredSAC"],
        "pearl": ["PearlFactoredQ"],
        "shared_action_buffer": ["SharedActionBuffer"],
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
