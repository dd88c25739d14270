"""The fixes, one folder per product; a folder can be copied into your own project and needs nothing else of rlrepro."""

import lazy_loader

from . import train_many  # loaded here, so that a later import of one of its files does not hide the function it names

del train_many

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "chunks": ["in_chunks"],
        "ensemble_ppo.learner": ["EnsemblePPO"],
        "large_actions.factored_dqn": ["FactoredDQN"],
        "large_actions.factored_q": ["FactoredQ", "expected_minimum"],
        "large_actions.factored_sac": ["FactoredSAC"],
        "large_actions.pearl": ["PearlFactoredQ"],
        "large_actions.shared_action_buffer": ["SharedActionBuffer"],
        "slice_sampler.sampler": ["IncrementalSliceSampler"],
        "tianshou.v1": ["ChunkedPPOPolicy"],
        "tianshou.v2": ["ChunkedGAIL", "ChunkedICMOnPolicyWrapper", "ChunkedPPO"],
        "train_many.runner": ["Outcome", "TrainingFailed", "train_many"],
        "train_many.threads": ["limit_threads", "thread_budget", "thread_variables"],
    },
)
