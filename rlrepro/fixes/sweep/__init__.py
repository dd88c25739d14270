"""Many PPO configurations at once: as ensembles where they can be batched, otherwise each alone."""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"runner": ["Trained", "sweep"]})


def __getattr__(name: str):
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name} needs {error.name}: pip install 'rlrepro[parallel]' stable-baselines3; a copied folder needs "
            "ensemble_ppo and train_many beside it, and what they need",
            name=error.name,
        ) from error
