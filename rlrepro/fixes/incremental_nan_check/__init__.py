"""tianshou's search for NaN after each collect, in the transitions just written instead of in the whole buffer."""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"trainer": ["incremental_nan_check"]},
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
