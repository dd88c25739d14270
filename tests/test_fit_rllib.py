"""An update of RLlib's PPO learner, planned and run."""

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("ray.rllib.algorithms.ppo")
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from rlrepro.fit import CannotPlan, plan_rllib
from rlrepro.fit.rllib_model import MODULE, _episodes
from rlrepro.lab import VirtualCard

FRAMES, CHOICE, ROWS, MINIBATCH = spaces.Box(-1, 1, (40, 40, 3), np.float32), spaces.Discrete(6), 512, 64
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config():
    ppo_config = PPOConfig().training(train_batch_size_per_learner=ROWS, minibatch_size=MINIBATCH, num_epochs=1)
    model = DefaultModelConfig(conv_filters=[[16, 4, 2], [32, 4, 2]], head_fcnet_hiddens=[64])
    return ppo_config.rl_module(model_config=model).learners(num_learners=0, num_gpus_per_learner=0)


def test_the_value_pass_is_planned_as_the_learner_runs_it(config):
    with VirtualCard(64, device="cpu") as card:
        learner = config.copy(copy_frozen=False).build_learner(spaces={MODULE: (FRAMES, CHOICE)})
        for _ in range(2):
            card.restart_peak()
            episodes = _episodes(learner.module[MODULE].unwrapped(), FRAMES, CHOICE, ROWS)
            learner.update(
                training_data=TrainingData(episodes=episodes),
                num_epochs=1,
                minibatch_size=MINIBATCH,
                timesteps={"num_env_steps_sampled_lifetime": 0},
            )
    planned = plan_rllib(config, FRAMES, CHOICE, device="cpu")
    assert planned.stages["preprocess"] == pytest.approx(card.peak_bytes, rel=0.01)
    assert planned.stages["preprocess"] > 3 * planned.stages["learn"]


def test_on_a_card_a_smaller_minibatch_does_not_help(config):
    planned = plan_rllib(config, FRAMES, CHOICE)
    smaller = planned.at(minibatch_size=MINIBATCH // 2)
    assert smaller.stages["preprocess"] == planned.stages["preprocess"]
    assert smaller.stages["learn"] < planned.stages["learn"]
    with pytest.raises(CannotPlan, match="config must be a PPOConfig"):
        plan_rllib({}, FRAMES, CHOICE)
