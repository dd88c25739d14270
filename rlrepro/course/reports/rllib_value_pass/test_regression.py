import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

LENGTHS, MINIBATCH, MAX_SEQ_LEN = (10, 7, 1, 25), 8, 5
OBS, ACTIONS = gym.spaces.Box(-1, 1, (4,), np.float32), gym.spaces.Discrete(3)
MODELS = {
    "fc": DefaultModelConfig(fcnet_hiddens=[16], vf_share_layers=False),
    "lstm": DefaultModelConfig(fcnet_hiddens=[16], use_lstm=True, lstm_cell_size=16, max_seq_len=MAX_SEQ_LEN),
}


def build_learner(model, minibatch_size=MINIBATCH):
    torch.manual_seed(0)
    config = PPOConfig().training(minibatch_size=minibatch_size, train_batch_size_per_learner=sum(LENGTHS))
    config.rl_module(model_config=MODELS[model]).learners(num_learners=0)
    return config.build_learner(spaces={"default_policy": (OBS, ACTIONS)})


def make_episodes(module):
    rng = np.random.default_rng(0)
    state = {key: np.asarray(value) for key, value in (module.get_initial_state() or {}).items()}
    episodes = []
    for length in LENGTHS:
        outputs = {"action_logp": [-1.1] * length, "action_dist_inputs": [np.zeros(3, np.float32)] * length}
        if state:
            outputs["state_out"] = [state] * length
        episodes.append(
            SingleAgentEpisode(
                observation_space=OBS,
                action_space=ACTIONS,
                observations=list(rng.uniform(-1, 1, (length + 1, 4)).astype(np.float32)),
                actions=list(rng.integers(3, size=length)),
                rewards=list(rng.random(length)),
                extra_model_outputs=outputs,
                terminated=length % 2 == 0,
                len_lookback_buffer=0,
            )
        )
    return episodes


def run_pipeline(learner):
    """Return the train batch, and the values of each call to `compute_values`."""
    module, calls = learner.module["default_policy"], []
    compute_values = module.compute_values

    def spy(batch, embeddings=None):
        calls.append(compute_values(batch, embeddings))
        return calls[-1]

    module.compute_values = spy
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=make_episodes(module), shared_data={}
    )
    return batch["default_policy"], calls


@pytest.mark.parametrize("model", MODELS)
def test_values_are_computed_in_minibatches_without_gradients(model):
    batch, calls = run_pipeline(build_learner(model))
    assert sum(values.numel() for values in calls) == batch["rewards"].numel()
    assert max(values.numel() for values in calls) <= MINIBATCH
    assert not any(values.requires_grad for values in calls)


@pytest.mark.parametrize("model", MODELS)
def test_advantages_do_not_depend_on_minibatch_size(model):
    whole, calls = run_pipeline(build_learner(model, minibatch_size=None))
    assert len(calls) == 1
    for minibatch_size in (1, MINIBATCH, 1000):
        batch, _ = run_pipeline(build_learner(model, minibatch_size=minibatch_size))
        for column in ("advantages", "value_targets"):
            torch.testing.assert_close(batch[column], whole[column])
