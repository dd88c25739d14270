"""plan_rllib(config, ...): an update of RLlib's PPO learner (new API stack), by the learner's own code."""

from unittest.mock import patch

import numpy as np
import torch
from gymnasium import spaces

from rlrepro.fit.marks import keeps_all, stage
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import plan_update

EPISODE_STEPS, MODULE = 100, "default_policy"


def plan_rllib(
    config,
    obs_space: spaces.Space,
    act_space: spaces.Space,
    *,
    train_batch_size: int | None = None,
    minibatch_size: int | None = None,
    device: str = "cuda",
    device_memory_gib: float | None = None,
) -> Plan:
    """Plan an update of the learner that `config`, a PPOConfig, describes: one epoch on episodes of 100 timesteps.

    "preprocess" is the learner's connector pipeline, which runs the value network on the whole train batch; "learn"
    makes the gradient steps. `config` is not changed.

    Args:
        train_batch_size: timesteps per learner; the config's by default
        minibatch_size: the config's by default
        device, device_memory_gib: as in `plan_update`

    Raises CannotPlan for anything that is not a PPOConfig, and as `plan_update` does.
    """
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.learner.training_data import TrainingData

    if not isinstance(config, PPOConfig):
        raise CannotPlan(f"config must be a PPOConfig of RLlib; found {type(config).__name__}")

    def make(train_batch_size, minibatch_size):
        copied = config.copy(copy_frozen=False)
        copied.training(train_batch_size_per_learner=train_batch_size, minibatch_size=minibatch_size, num_epochs=1)
        copied.learners(num_learners=0, num_gpus_per_learner=0)
        with patch("ray.rllib.core.learner.torch.torch_learner.get_device", lambda *_: torch.device(device)):
            learner = copied.build_learner(spaces={MODULE: (obs_space, act_space)})
        learner._learner_connector = _in_stage("preprocess", learner._learner_connector)
        learner._update = _in_stage("learn", learner._update)
        return learner

    def step(learner, train_batch_size, minibatch_size):
        module = learner.module[MODULE].unwrapped()
        learner.update(
            training_data=TrainingData(episodes=_episodes(module, obs_space, act_space, train_batch_size)),
            num_epochs=1,
            minibatch_size=minibatch_size,
            timesteps={"num_env_steps_sampled_lifetime": 0},
        )

    sizes = {
        "train_batch_size": train_batch_size or config.train_batch_size_per_learner,
        "minibatch_size": minibatch_size or config.minibatch_size,
    }
    return plan_update(make, step, device=device, device_memory_gib=device_memory_gib, **sizes)


def _in_stage(name: str, method):
    def call_in_stage(*args, **kwargs):
        with stage(name), keeps_all():  # RLlib masks its padding
            return method(*args, **kwargs)

    return call_in_stage


def _episodes(module, obs_space, act_space, rows: int) -> list:
    """Finished episodes with `rows` timesteps in all, and the outputs that the module writes when it acts."""
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    input_dim = module.get_train_action_dist_cls().required_input_dim(act_space)
    episodes = []
    for start in range(0, rows, EPISODE_STEPS):
        length = min(EPISODE_STEPS, rows - start)
        outputs = {
            "action_logp": [np.float32(0)] * length,
            "action_dist_inputs": list(np.zeros((length, input_dim), np.float32)),
        }
        if module.is_stateful():
            state = {name: np.zeros(tuple(init.shape), np.float32) for name, init in module.get_initial_state().items()}
            outputs["state_out"] = [state] * length
        episodes.append(
            SingleAgentEpisode(
                observation_space=obs_space,
                action_space=act_space,
                observations=[obs_space.sample() for _ in range(length + 1)],
                actions=[act_space.sample() for _ in range(length)],
                rewards=[0.0] * length,
                extra_model_outputs=outputs,
                terminated=True,
                len_lookback_buffer=0,
            )
        )
    return episodes
