import gc
import weakref

import pytest
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback, CallbackList

CASES = [
    (A2C, "CartPole-v1", {}),
    (PPO, "CartPole-v1", {"n_steps": 32, "batch_size": 32}),
    (DQN, "CartPole-v1", {"learning_starts": 8, "buffer_size": 100}),
    (SAC, "Pendulum-v1", {"learning_starts": 8, "buffer_size": 100}),
]


class ReadsLocals(BaseCallback):
    """Reads local variables of the training loop, as callbacks do."""

    def __init__(self):
        super().__init__()
        self.num_rewards = 0

    def _on_training_start(self):
        assert "total_timesteps" in self.locals

    def _on_step(self):
        assert self.locals["self"] is self.model
        self.num_rewards += len(self.locals["rewards"])
        return True


@pytest.mark.parametrize("model_class, env_id, kwargs", CASES)
@pytest.mark.parametrize("kind", ["none", "function", "list"])
def test_model_is_freed_after_training(model_class, env_id, kwargs, kind):
    callbacks = {
        "none": None,
        "function": lambda locals_, globals_: "rewards" in locals_,
        "list": CallbackList([ReadsLocals()]),
    }
    model = model_class("MlpPolicy", env_id, device="cpu", **kwargs)
    gc.collect()
    gc.disable()
    try:
        model.learn(64, callback=callbacks.pop(kind))
        model_ref = weakref.ref(model)
        del model
        assert model_ref() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("model_class, env_id, kwargs", CASES)
def test_callbacks_see_local_variables(model_class, env_id, kwargs):
    callback = ReadsLocals()
    model_class("MlpPolicy", env_id, device="cpu", **kwargs).learn(64, callback=[callback])
    assert callback.num_rewards >= 64
