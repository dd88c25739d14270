"""PPO, GAIL and ICM for tianshou, with forward passes outside the gradient step bounded by `max_batchsize`.

`v1` is for tianshou before 2.0, `v2` for 2.x; `chunks` needs only torch.
"""

from importlib import metadata

import lazy_loader

from .tested_with import TESTED_WITH

if __name__ == "tianshou":
    raise ImportError(
        "this folder of rlrepro hides the library tianshou, because it has the same name: rename it, or move it into "
        "a package"
    )

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "chunks": ["in_chunks"],
        "v1": ["ChunkedPPOPolicy"],
        "v2": ["ChunkedGAIL", "ChunkedICMOnPolicyWrapper", "ChunkedPPO"],
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
