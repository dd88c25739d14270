import sys

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from torch.autograd.graph import saved_tensors_hooks

ROWS, MINIBATCH = 4_000, 64
space, actions = gym.spaces.Box(-1, 1, (8,), np.float32), gym.spaces.Discrete(2)
config = PPOConfig().training(train_batch_size_per_learner=ROWS, minibatch_size=MINIBATCH)
config.learners(num_learners=0).rl_module(model_config=DefaultModelConfig(vf_share_layers=False))
learner = config.build_learner(spaces={"default_policy": (space, actions)})
episode = SingleAgentEpisode(
    observation_space=space,
    action_space=actions,
    observations=[space.sample() for _ in range(ROWS + 1)],
    actions=[0] * ROWS,
    rewards=[1.0] * ROWS,
    extra_model_outputs={"action_logp": [-0.7] * ROWS, "action_dist_inputs": [np.zeros(2, np.float32)] * ROWS},
    terminated=True,
    len_lookback_buffer=0,
)
module, rows, saved = learner.module["default_policy"], [], []
compute_values = module.compute_values


def recorded(batch, embeddings=None):
    with saved_tensors_hooks(lambda tensor: saved.append(tensor.nbytes) or tensor, lambda tensor: tensor):
        values = compute_values(batch, embeddings)
    rows.append(len(values))
    return values


module.compute_values = recorded
learner._learner_connector(rl_module=learner.module, batch={}, episodes=[episode], shared_data={})
print(f"before the first minibatch of {MINIBATCH} timesteps, the value network got {max(rows):,} timesteps at once,")
print(f"and {sum(saved):,} bytes were kept for a backward pass that never comes")
sys.exit(max(rows) > MINIBATCH or sum(saved) > 0)
