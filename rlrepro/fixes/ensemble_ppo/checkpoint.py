"""What a file of an ensemble holds: everything except the environments."""

import cloudpickle


def state_of(ensemble) -> dict:
    """The ensemble's arguments, what it has collected and learned, and which members have stopped."""
    learned = {"weights": ensemble.networks.flat.cpu(), "adam": ensemble.optimizer.adam.state_dict()}
    collected = {"collected": ensemble.collector.state(), "stopped": ensemble.stopped, "diverged": ensemble.diverged}
    return {"options": cloudpickle.dumps(ensemble.options), **learned, **collected}


def restore(ensemble, saved: dict) -> None:
    """Continue from a saved state. Raises ValueError if the ensemble has other networks or another optimizer."""
    if ensemble.networks.flat.shape != saved["weights"].shape:
        shape, expected = tuple(ensemble.networks.flat.shape), tuple(saved["weights"].shape)
        raise ValueError(f"expected (members, weights) {expected} as in the file, found {shape}; pass the same env")
    adam = ensemble.optimizer.adam.state_dict()  # with the new learning rates
    if len(adam["param_groups"][0]["params"]) != len(saved["adam"]["param_groups"][0]["params"]):
        raise ValueError("target_kl can be changed from one number to another, but not from or to None")
    ensemble.networks.flat.data.copy_(saved["weights"])
    ensemble.optimizer.adam.load_state_dict({**adam, "state": saved["adam"]["state"]})
    ensemble.collector.restore(saved["collected"])
    ensemble.episodes = ensemble.collector.episodes
    ensemble.stopped, ensemble.diverged = saved["stopped"], saved["diverged"]
