"""The fixes, one folder per product; a folder can be copied into your own project and needs nothing else of rlrepro."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
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
        "slice_sampler": ["IncrementalSliceSampler"],
        "sweep": ["Trained", "sweep"],
        "tianshou": ["ChunkedGAIL", "ChunkedICMOnPolicyWrapper", "ChunkedPPO", "ChunkedPPOPolicy", "in_chunks"],
        "train_many": [
            "Outcome",
            "TrainingFailed",
            "limit_threads",
            "thread_budget",
            "thread_variables",
            "train_many",
        ],
    },
)
