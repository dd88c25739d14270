"""Large sets of discrete actions: where the memory really goes.

Upstream: facebookresearch/Pearl#72, and GymEnv's default encoding in TorchRL. `SETTINGS` says how much each profile
measures; `pearl` and `model` hold what is run on Pearl itself or, where it is not at hand, on a model of it; `ours`
what is run on the cures, `torchrl_encoding` on TorchRL, `account` predicts from shapes, `task` is the training run,
`claims` judges the article, `plots` draws.
"""

from dataclasses import dataclass

import lazy_loader

STATE, HIDDEN, BATCH = 768, (768, 512, 128), 128  # of Pearl#72
FEATURES = 2  # numbers in an action there
ARTICLE_ACTIONS = 27_000
ACTIONS = 30_000  # of the training run and TorchRL's example
CAPACITY = 10_000  # transitions, where a buffer's size is told
CARD_GIB = 8.0
HOT = (200, 400, 800)  # actions whose one-hot batches are measured
COPIES = 10  # ensemble members of a BootstrapReplayBuffer
EMBEDDED = 16  # numbers in an embedding
COMMIT = "48f1fbb"  # of facebookresearch/Pearl


@dataclass(frozen=True)
class Settings:
    """How much of everything one profile measures."""

    counts: tuple[int, ...]  # of actions
    pairs: int  # of a state and an action, in a batch for Pearl's update
    run: tuple[int, ...]  # actions where one critic's update is run with a whole batch, in both ways
    wide: tuple[tuple[int, int], ...]  # (actions, rows) for times of both ways, of the plain one where it fits
    repeats: int
    since_start: tuple[int, ...]  # transitions stored, when an update is measured, with actions `since_actions`
    since_actions: int
    histories: tuple[int, ...]  # lengths
    times_larger: tuple[int, ...]  # than the plain way's largest number of actions, tried with ours
    runs_article: bool  # whether our update of the article's size is run, or planned only
    methods: tuple[str, ...]  # of the training run
    updates: int  # of it

    def rows(self, count: int) -> int:
        """Of a batch with so many actions, so that weights count for little beside it."""
        return max(4, min(BATCH, self.pairs // count))


SETTINGS = {
    "smoke": Settings(
        counts=(100, 300, 1_000),
        pairs=6_000,
        run=(30, 100),
        wide=((3_000, 16),),
        repeats=3,
        since_start=(1, 64, 128, 160),
        since_actions=50,
        histories=(1, 4, 16, 64),
        times_larger=(100,),
        runs_article=False,
        methods=("dqn",),
        updates=160,
    ),
    "full": Settings(
        counts=(100, 300, 1_000, 3_000, 10_000, 30_000),
        pairs=24_000,
        run=(100, 300, 1_000),
        wide=((3_000, 16),),
        repeats=9,
        since_start=(1, 4, 16, 64, 128, 192, 256),
        since_actions=300,
        histories=(1, 4, 16, 64),
        times_larger=(100, 200, 400),
        runs_article=True,
        methods=("dqn", "sac"),
        updates=1_000,
    ),
}

ON_CUDA = {
    "smoke": {"wide": ((3_000, 16), (ARTICLE_ACTIONS, 16))},
    "full": {"wide": ((3_000, 16), (ARTICLE_ACTIONS, BATCH), (100_000, BATCH), (300_000, BATCH)), "repeats": 5},
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "fixed_workloads",
        "nearest_point_env",
        "pearl",
        "pearl_reimplementation",
        "plots",
        "predicted_bytes",
        "tables",
        "torchrl_encoding",
    ],
    submod_attrs={"claims": ["CLAIMS"], "pearl_backend": ["Theirs"]},
)
