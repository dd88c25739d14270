"""What runs in the process of a release: RLlib's own PPO learner, built without a cluster, on random episodes."""

import gc
import logging
import math
import time
import traceback
from copy import deepcopy

import numpy as np

from rlrepro.lab.garbage_collector import importing
from rlrepro.lab.memory import peak_memory
from rlrepro.lab.timing import Comparison, compare
from rlrepro.lab.virtual_card import VirtualCard, as_out_of_memory

EPISODE_STEPS, ACTIONS, MODULE = 100, 6, "default_policy"
SHAPES = {"nature": (84, 84, 4), "recurrent": (64,)}  # of an observation
MODELS = {
    "nature": {"conv_filters": [[32, 8, 4], [64, 4, 2], [64, 3, 1]], "head_fcnet_hiddens": [64]},
    "recurrent": {"fcnet_hiddens": [256], "use_lstm": True, "lstm_cell_size": 256, "max_seq_len": 20},
}
BATCH_COLUMNS = ("advantages", "value_targets")


def missing() -> str | None:
    """Import RLlib. Returns the error message, or None if it can be imported."""
    try:
        with importing():
            import ray.rllib.algorithms.ppo  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


def spaces(network: str):
    import gymnasium as gym

    return gym.spaces.Box(-1, 1, SHAPES[network], np.float32), gym.spaces.Discrete(ACTIONS)


def make_learner(network: str, rows: int, minibatch: int, way: str, device: str = "cpu"):
    """A learner of PPO in this process. `way` is "released", "no_grad" (our connector, all at once) or "chunked"."""
    import torch
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    logging.getLogger("ray").setLevel(logging.ERROR)  # RLlib warns about its own calls
    torch.manual_seed(0)
    config = PPOConfig().training(train_batch_size_per_learner=rows, minibatch_size=minibatch, num_epochs=1)
    config.rl_module(model_config=DefaultModelConfig(vf_share_layers=network == "recurrent", **MODELS[network]))
    config.learners(num_learners=0, num_gpus_per_learner=int(device.startswith("cuda")))
    if way != "released":
        from rlrepro.fixes import ChunkedPPOTorchLearner

        config.learners(learner_class=ChunkedPPOTorchLearner)
    learner = config.build_learner(spaces={MODULE: spaces(network)})
    if way == "no_grad":
        learner._learner_connector.connectors[-1].size = None
    return learner


def make_episodes(network: str, rows: int, seed: int = 0) -> list:
    """Random episodes of `rows` transitions. The learner's pipeline adds a timestep to each, so use them once."""
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    (observations, actions), rng = spaces(network), np.random.default_rng(seed)
    episodes = []
    for start in range(0, rows, EPISODE_STEPS):
        length = min(EPISODE_STEPS, rows - start)
        outputs = {
            "action_logp": [np.float32(-math.log(ACTIONS))] * length,
            "action_dist_inputs": list(np.zeros((length, ACTIONS), np.float32)),
        }
        if network == "recurrent":
            zeros = np.zeros(MODELS[network]["lstm_cell_size"], np.float32)
            outputs["state_out"] = [{"h": zeros, "c": zeros}] * length
        episodes.append(
            SingleAgentEpisode(
                observation_space=observations,
                action_space=actions,
                observations=list(rng.random((length + 1, *observations.shape), dtype=np.float32)),
                actions=list(rng.integers(ACTIONS, size=length)),
                rewards=list(rng.random(length)),
                extra_model_outputs=outputs,
                terminated=True,
                len_lookback_buffer=0,
            )
        )
    return episodes


class ValuePass:
    """The last connector of a learner's pipeline, with the batch that the earlier ones make; call it to run it. With
    several modules, each gets that batch."""

    def __init__(self, network: str, rows: int, minibatch: int, way: str, device: str = "cpu", modules: int = 1):
        self.learner = make_learner(network, rows, minibatch, way, device)
        self.episodes, self.shared = make_episodes(network, rows), {}
        *earlier, self.connector = self.learner._learner_connector.connectors
        batch = {}
        for piece in earlier:
            batch = piece(rl_module=self.learner.module, batch=batch, episodes=self.episodes, shared_data=self.shared)
        self.columns = next(iter(batch.values()))
        module = self.learner.module[MODULE].unwrapped()
        for index in range(1, modules):
            self.learner.module.add_module(f"policy_{index}", deepcopy(module))
        self.names = list(self.learner.module.keys())

    def __call__(self) -> dict:
        batch = {name: dict(self.columns) for name in self.names}
        return self.connector(
            rl_module=self.learner.module, batch=batch, episodes=self.episodes, shared_data=self.shared
        )


def value_pass(network: str, rows: int, minibatch: int, way: str, device: str = "cpu", modules: int = 1) -> dict:
    """Peak bytes of the value pass, and bytes held after it apart from its results; what the value network was called
    with: timesteps at a time, and whether gradients were recorded."""
    import torch
    import tree

    run = ValuePass(network, rows, minibatch, way, device, modules)
    module, calls, result_bytes = run.learner.module[MODULE].unwrapped(), [], []
    compute_values = module.compute_values

    def spy(batch, embeddings=None):
        values = compute_values(batch, embeddings)
        calls.append((values.numel(), values.requires_grad))
        return values

    def counted_run():
        result = run()
        result_bytes.append(_result_bytes(result, device))
        return result

    module.compute_values = spy
    memory = peak_memory(counted_run, device=device)
    return {
        "peak": memory.peak_bytes,
        "held": memory.held_bytes - result_bytes[-1],
        "batch": sum(column.nbytes for column in tree.flatten(run.columns) if isinstance(column, torch.Tensor)),
        "largest_call": max(numel for numel, _ in calls),
        "with_gradients": any(requires_grad for _, requires_grad in calls),
    }


def advantages(network: str, rows: int, minibatch: int, way: str, device: str = "cpu") -> dict[str, np.ndarray]:
    """The results of the value pass, by column."""
    batch = ValuePass(network, rows, minibatch, way, device)()[MODULE]
    return {name: batch[name].cpu().numpy() for name in BATCH_COLUMNS}


def time_ratio(network: str, rows: int, minibatch: int, repeats: int, device: str = "cpu") -> Comparison:
    """The time of our value pass over that of RLlib's."""
    released, ours = (ValuePass(network, rows, minibatch, way, device) for way in ("released", "chunked"))
    return compare(ours, released, repeats=repeats, device=device)


def live_by_stage(network: str, rows: int, minibatch: int, way: str, device: str = "cpu") -> dict:
    """Live bytes on top of those at the start, by stage of the value pass; the share of its time after the values."""
    run = ValuePass(network, rows, minibatch, way, device)
    live, seconds = {}, {}
    with VirtualCard(None, device=device) as card:
        run()  # the card counts weights and the train batch from the first operator that reads them
        gc.collect()
        start_bytes, start_seconds = card.live_bytes, time.perf_counter()

        def record(stage):
            live[stage], seconds[stage] = card.live_bytes - start_bytes, time.perf_counter() - start_seconds

        foreach = run.learner.module.foreach_module

        def spy_foreach(func, **options):
            results = foreach(func, **options)
            if options.get("return_dict"):
                record("values computed")
            return results

        to_tensor = run.connector._numpy_to_tensor_connector

        def spy_to_tensor(**context):
            record("advantages computed")
            return to_tensor(**context)

        run.learner.module.foreach_module, run.connector._numpy_to_tensor_connector = spy_foreach, spy_to_tensor
        result = run()
        record("connector returned")
        live["connector returned"] -= _result_bytes(result, device)
    return {"live": live, "share_held": 1 - seconds["values computed"] / seconds["connector returned"]}


def _result_bytes(result: dict, device: str) -> int:
    """Bytes of the results themselves, which a CPU shares with NumPy."""
    size = sum(batch[name].nbytes for batch in result.values() for name in BATCH_COLUMNS)
    return size if device.startswith("cuda") else 0


def _update(learner, episodes, minibatch):
    from ray.rllib.core.learner.training_data import TrainingData

    return learner.update(
        training_data=TrainingData(episodes=episodes),
        num_epochs=1,
        minibatch_size=minibatch,
        timesteps={"num_env_steps_sampled_lifetime": 0},
    )


def update_peak(network: str, rows: int, minibatch: int, way: str, device: str = "cpu") -> int:
    """Peak bytes of a whole `learner.update` on `rows` transitions, without the batch itself on a CPU."""
    learner = make_learner(network, rows, minibatch, way, device)
    _update(learner, make_episodes(network, minibatch), minibatch)  # Adam's state
    episodes = make_episodes(network, rows)
    return peak_memory(lambda: _update(learner, episodes, minibatch) and None, device=device, warmup=0).peak_bytes


def fits(network: str, rows: int, minibatch: int, way: str, gib: float, device: str = "cpu") -> dict:
    """One update on a virtual card of `gib` GiB: {"fits", "error", "trace", "peak_bytes"}."""
    import torch

    error, trace = None, []
    card = VirtualCard(gib, device=device)
    learner = make_learner(network, rows, minibatch, way, device)
    try:
        with card, as_out_of_memory():
            _update(learner, make_episodes(network, rows), minibatch)
    except torch.OutOfMemoryError as exception:
        error = str(exception).split("\n")[0]
        frames = [frame for frame in traceback.extract_tb(exception.__traceback__) if "/ray/rllib/" in frame.filename]
        trace = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.line}" for frame in frames]
    return {"fits": error is None, "error": error, "trace": trace[-5:], "peak_bytes": card.peak_bytes}


def weights_after(network: str, rows: int, minibatch: int, way: str, updates: int, device: str = "cpu") -> list:
    """All weights, as float64, before and after `updates` updates on the same episodes."""
    import torch

    learner, weights = make_learner(network, rows, minibatch, way, device), []
    for update in range(updates + 1):
        if update:
            np.random.seed(update)  # minibatches are shuffled by NumPy
            torch.manual_seed(update)
            _update(learner, make_episodes(network, rows, seed=update), minibatch)
        if update in (0, updates):
            parameters = learner.module[MODULE].unwrapped().parameters()
            weights.append(torch.cat([parameter.detach().flatten().double() for parameter in parameters]).cpu().numpy())
    return weights
