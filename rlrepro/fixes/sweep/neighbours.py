"""The two folders that a sweep uses, wherever they were copied to."""

from importlib import import_module

FOLDERS = ("ensemble_ppo", "train_many")


def neighbour(name: str):
    """A module of the folders beside this one, such as "train_many" or "ensemble_ppo.checks". Raises ImportError, which
    names the folder to copy, if it is missing."""
    package = __package__.rpartition(".")[0]
    try:
        return import_module(f"{package}.{name}" if package else name)
    except ModuleNotFoundError as error:
        if error.name.rpartition(".")[2] not in FOLDERS:
            raise
        raise ImportError(
            f"sweep needs the folders {' and '.join(FOLDERS)} beside its own; copy {error.name}"
        ) from error
