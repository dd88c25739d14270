"""PPO, GAIL and ICM of tianshou whose forward passes outside the gradient step are bounded by `max_batchsize`.

`v1` is for tianshou before 2.0, `v2` for 2.x; `chunks` needs torch alone.
"""

import lazy_loader

if __name__ == "tianshou":
    raise ImportError(
        "this folder of rlrepro's hides the library tianshou, whose name it has: rename it, or move it into a package"
    )

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "chunks": ["in_chunks"],
        "v1": ["ChunkedPPOPolicy"],
        "v2": ["ChunkedGAIL", "ChunkedICMOnPolicyWrapper", "ChunkedPPO"],
    },
)
