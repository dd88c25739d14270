"""An environment that only the script which registers it knows, as text for such a script."""

REGISTERED_ENV = """
import gymnasium as gym
class Mine(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}
    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}
if __name__ == "__main__":
    gym.register("Mine-v0", Mine, max_episode_steps=20)
"""
