"""The fixes, one folder each. A folder can be copied into your own project and needs nothing else from rlrepro, except
that `sweep` needs `ensemble_ppo` and `train_many` beside it."""

import lazy_loader

_load, _, NAMES = lazy_loader.attach(
    __name__,
    submod_attrs={
        "ensemble_ppo": ["EnsemblePPO"],
        "incremental_nan_check": ["incremental_nan_check"],
        "large_actions": [
            "FactoredDQN",
            "FactoredQ",
            "FactoredSAC",
            "PearlFactoredQ",
            "SharedActionBuffer",
            "expected_minimum",
        ],
        "patient_parallel_env": ["PatientParallelEnv", "wait_patiently"],
        "rllib_value_pass": ["ChunkedGAE", "ChunkedPPOTorchLearner", "ChunkedValuePass"],
        "slice_sampler": [
            "IncrementalPrioritizedSliceSampler",
            "IncrementalSliceSampler",
            "IncrementalSliceSamplerWithoutReplacement",
        ],
        "sweep": ["Trained", "sweep"],
        "tianshou": ["ChunkedGAIL", "ChunkedICMOnPolicyWrapper", "ChunkedPPO", "ChunkedPPOPolicy", "in_chunks"],
        "train_many": [
            "Outcome",
            "TrainingFailed",
            "limit_threads",
            "plot",
            "table",
            "thread_budget",
            "thread_variables",
            "train_many",
        ],
    },
)


def __getattr__(name: str):
    if name != "__all__":
        return _load(name)
    available = globals()["__all__"] = [
        export for export in NAMES if _can_be_imported(export)
    ]  # for `import *` and help()
    return available


def __dir__() -> list[str]:
    return globals().get("__all__") or NAMES


def _can_be_imported(name: str) -> bool:
    try:
        _load(name)
    except ImportError:
        return False
    return True
