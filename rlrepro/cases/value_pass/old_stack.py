"""The same update in RLlib's older API, which computes values while it samples; runs in RLlib's process."""

import numpy as np

from rlrepro.cases.value_pass.workloads import ACTIONS, MODELS, spaces
from rlrepro.lab.memory import peak_memory


def update_peak(rows: int, minibatch: int, device: str = "cpu") -> int:
    """Peak bytes of the gradient steps of PPOTorchPolicy with an LSTM on `rows` timesteps, without the batch itself on
    a CPU."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.ppo.ppo_torch_policy import PPOTorchPolicy

    config = PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    config.framework("torch").resources(num_gpus=int(device.startswith("cuda")))
    config.training(train_batch_size=rows, minibatch_size=minibatch, num_epochs=1, model=MODELS["recurrent"])
    policy = PPOTorchPolicy(*spaces("recurrent"), config.to_dict())

    def update():
        for offset in range(0, loaded, minibatch):
            policy.learn_on_loaded_batch(offset)

    loaded = policy.load_batch_into_buffer(_batch(rows))
    return peak_memory(update, device=device).peak_bytes


def _batch(rows: int):
    """A random train batch with what the older API computes while sampling: values, advantages and states."""
    from ray.rllib.policy.sample_batch import SampleBatch

    rng, (observations, _) = np.random.default_rng(0), spaces("recurrent")
    steps, cell = MODELS["recurrent"]["max_seq_len"], MODELS["recurrent"]["lstm_cell_size"]
    floats = ("rewards", "advantages", "value_targets", "vf_preds", "values_bootstrapped")
    states = {f"state_in_{index}": np.zeros((rows // steps, cell), np.float32) for index in (0, 1)}
    return SampleBatch(
        obs=rng.random((rows, *observations.shape), dtype=np.float32),
        actions=rng.integers(ACTIONS, size=rows),
        action_logp=np.full(rows, -np.log(ACTIONS), np.float32),
        action_dist_inputs=np.zeros((rows, ACTIONS), np.float32),
        terminateds=np.zeros(rows, bool),
        seq_lens=np.full(rows // steps, steps, np.int32),
        **{name: rng.random(rows, dtype=np.float32) for name in floats},
        **states,
    )
