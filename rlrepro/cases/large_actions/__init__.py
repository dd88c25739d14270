"""Large discrete action spaces: where the memory goes.

Upstream: facebookresearch/Pearl#72, and GymEnv's default encoding in TorchRL. `pearl` has the workloads, and
`pearl_reimplementation` the same functions for machines without Pearl. `fixed_workloads` has the workloads of the
fixes, `torchrl_encoding` those of TorchRL, and `nearest_point_env` the training run.
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "05_large_action_spaces"
STATE, HIDDEN, BATCH = 768, (768, 512, 128), 128  # from Pearl#72
FEATURES = 2  # of an action in Pearl#72
ARTICLE_ACTIONS = 27_000
ACTIONS = 30_000  # in the training run and in TorchRL's example
CAPACITY = 10_000  # transitions in a buffer
CARD_GIB = 8.0
COPIES = 10  # ensemble members of a BootstrapReplayBuffer
EMBEDDED = 16  # features of an action's embedding
COMMIT = "48f1fbb"  # of facebookresearch/Pearl


@dataclass(frozen=True)
class Settings:
    """How much one profile measures."""

    action_counts: tuple[int, ...]  # at which Pearl's transitions and updates are measured
    pairs: int  # state-action pairs in one batch of Pearl's update
    one_hot_counts: tuple[int, ...]  # numbers of actions for the batches that Pearl prepares as one-hot vectors
    critic_counts: tuple[int, ...]  # actions at which one critic's update runs on a whole batch, plain and factored
    timed_sizes: tuple[tuple[int, int], ...]  # (actions, batch size)
    limits_gib: tuple[float, ...]  # of FactoredQ's memory, at the largest of these sizes at which the plain way fits
    repeats: int
    transitions_stored: tuple[int, ...]  # in the buffer when an update with `leak_actions` actions is measured
    leak_actions: int
    history_lengths: tuple[int, ...]
    multiples: tuple[int, ...]  # of the largest number of actions that the plain way fits; planned with FactoredQ
    runs_article_size: bool  # whether FactoredQ's update runs at the article's size, or is only planned
    training_methods: tuple[str, ...]
    training_updates: int
    training_actions: int = ACTIONS

    def batch_size(self, count: int) -> int:
        """States in a batch with `count` actions, enough to make weights small compared with activations."""
        return max(4, min(BATCH, self.pairs // count))


SETTINGS = {
    "tiny": Settings(
        action_counts=(30, 100, 300),
        pairs=2_000,
        one_hot_counts=(100, 200, 400),
        critic_counts=(10, 30),
        timed_sizes=((300, 8),),
        limits_gib=(0.01, 0.1),
        repeats=3,
        transitions_stored=(1, 64, 128, 160),
        leak_actions=10,
        history_lengths=(1, 4, 16, 64),
        multiples=(10,),
        runs_article_size=False,
        training_methods=("dqn",),
        training_updates=100,
        training_actions=1_000,
    ),
    "smoke": Settings(
        action_counts=(100, 300, 1_000),
        pairs=4_000,
        one_hot_counts=(200, 400, 800),
        critic_counts=(30, 100),
        timed_sizes=((1_000, 8),),
        limits_gib=(0.01, 0.1),
        repeats=3,
        transitions_stored=(1, 64, 128, 160),
        leak_actions=30,
        history_lengths=(1, 4, 16, 64),
        multiples=(30,),
        runs_article_size=False,
        training_methods=("dqn",),
        training_updates=100,
    ),
    "full": Settings(
        action_counts=(100, 300, 1_000, 3_000, 10_000, 30_000),
        pairs=24_000,
        one_hot_counts=(200, 400, 800),
        critic_counts=(100, 300, 1_000),
        timed_sizes=((3_000, 16),),
        limits_gib=(0.06, 0.25, 1),
        repeats=9,
        transitions_stored=(1, 4, 16, 64, 128, 192, 256),
        leak_actions=300,
        history_lengths=(1, 4, 16, 64),
        multiples=(100, 200, 400),
        runs_article_size=True,
        training_methods=("dqn", "sac"),
        training_updates=1_000,
    ),
}

ON_CUDA = {
    "smoke": {"timed_sizes": ((3_000, 16), (ARTICLE_ACTIONS, 16)), "limits_gib": (0.5, 2, 8)},
    "full": {
        "timed_sizes": ((3_000, 16), (ARTICLE_ACTIONS, BATCH), (100_000, BATCH)),
        "limits_gib": (0.5, 1.5, 4, 16, 64),
        "repeats": 5,
    },
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "critic_times",
        "fixed_workloads",
        "measure",
        "nearest_point_env",
        "pearl",
        "pearl_reimplementation",
        "plots",
        "predicted_bytes",
        "tables",
        "torchrl_encoding",
    ],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"], "pearl_backend": ["PearlBackend"]},
)
