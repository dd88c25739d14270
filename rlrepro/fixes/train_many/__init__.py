"""Many independent training runs at once, each in a process of its own with its share of the threads."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "runner": ["Outcome", "TrainingFailed", "train_many"],
        "threads": ["limit_threads", "thread_budget", "thread_variables"],
    },
)
