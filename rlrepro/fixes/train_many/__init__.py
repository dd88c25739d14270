"""Many independent training runs at once, each in its own process with its share of the threads."""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "summary": ["plot", "table"],
        "runner": ["Outcome", "TrainingFailed", "train_many"],
        "threads": ["limit_threads", "thread_budget", "thread_variables"],
    },
)


def __getattr__(name: str):
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name} needs {error.name}: pip install 'rlrepro[parallel]', or for a copy of this folder pip install "
            "cloudpickle filelock joblib lazy-loader loky numpy threadpoolctl tqdm",
            name=error.name,
        ) from error
