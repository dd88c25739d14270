import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class Numbers(gym.Env):
    def __init__(self, dtype, is_dict):
        box = spaces.Box(0, 100, (3,), dtype)
        self.observation_space = spaces.Dict({"numbers": box, "index": spaces.Discrete(5)}) if is_dict else box
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


class CompareObservations(BaseCallback):
    """Compares the observations that the policy has seen with those in the rollout buffer."""

    def _on_rollout_start(self):
        self.seen = []

    def _on_step(self):
        tensors = self.locals["obs_tensor"]
        tensors = tensors if isinstance(tensors, dict) else {"numbers": tensors}
        self.seen.append({key: tensor.numpy() for key, tensor in tensors.items()})
        return True

    def _on_rollout_end(self):
        stored = self.model.rollout_buffer.observations
        stored = stored if isinstance(stored, dict) else {"numbers": stored}
        for key, array in stored.items():
            seen = np.stack([observations[key] for observations in self.seen])
            np.testing.assert_allclose(array.reshape(seen.shape), seen, rtol=1e-6)
        assert len(np.unique(stored["numbers"])) > 10


@pytest.mark.parametrize("model_class", [A2C, PPO])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("is_dict", [False, True])
def test_rollout_buffer_stores_normalized_observations(model_class, dtype, is_dict):
    venv = DummyVecEnv([lambda: Numbers(dtype, is_dict)] * 2)
    venv = VecNormalize(venv, norm_obs_keys=["numbers"] if is_dict else None)
    policy = "MultiInputPolicy" if is_dict else "MlpPolicy"
    model_class(policy, venv, n_steps=16, seed=0, device="cpu").learn(64, callback=CompareObservations())


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8])
def test_rollout_buffer_keeps_the_dtype_of_the_space(dtype):
    venv = VecNormalize(DummyVecEnv([lambda: Numbers(dtype, False)]), norm_obs=False)
    model = PPO("MlpPolicy", venv, n_steps=16, batch_size=16, device="cpu").learn(16)
    assert model.rollout_buffer.observations.dtype == dtype
