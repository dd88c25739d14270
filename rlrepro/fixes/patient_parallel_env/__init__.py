"""torchrl's ParallelEnv with a parent that sleeps while it waits for its workers."""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"env": ["PatientParallelEnv", "wait_patiently"]},
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
