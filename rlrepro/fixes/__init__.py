"""The cures, each importable into your own project; nothing here needs the rest of rlrepro."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "chunks": ["in_chunks"],
        "ensemble_ppo": ["EnsemblePPO"],
        "factored_dqn": ["FactoredDQN"],
        "factored_q": ["FactoredQ", "expected_minimum"],
        "factored_sac": ["FactoredSAC"],
        "incremental_slice_sampler": ["IncrementalSliceSampler"],
        "pearl_factored_q": ["PearlFactoredQ"],
        "shared_action_buffer": ["SharedActionBuffer"],
        "tianshou_1_chunked": ["ChunkedPPOPolicy"],
        "tianshou_chunked": ["ChunkedGAIL", "ChunkedICMOnPolicyWrapper", "ChunkedPPO"],
        "threads": ["limit_threads", "thread_budget", "thread_variables"],
        "train_many": ["Outcome", "TrainingFailed", "train_many"],
    },
)
