"""GAIL and ICM of tianshou 2.x: the memory that one update needs, as released and with our fix."""

import numpy as np
import torch
from torch import nn

from rlrepro.cases.common.tianshou_ppo import ACTIONS, ppo, preprocess
from rlrepro.cases.common.tianshou_vectors import (
    FEATURES,
    HIDDEN,
    DiscreteActor,
    GaussianActor,
    VectorCritic,
    mlp,
    vector_ppo,
    vector_rollout,
)
from rlrepro.lab import peak_memory
from rlrepro.lab.garbage_collector import freeze_imports

CONTINUOUS = 8  # action dimensions of the imitated expert
SGD = {"optimizer": torch.optim.SGD, "lr": 1e-3}  # Adam's first steps turn rounding errors into whole steps


def gail(chunked: bool, rows: int, max_batchsize: int, seed: int, device: str):
    from tianshou.algorithm import GAIL
    from tianshou.algorithm.optim import TorchOptimizerFactory
    from tianshou.utils.net.common import ModuleWithVectorOutput

    from rlrepro.fixes import ChunkedGAIL

    class Actor(ModuleWithVectorOutput):  # GAIL requires this type
        def __init__(self):
            super().__init__(CONTINUOUS)
            self.gaussian = GaussianActor(FEATURES, CONTINUOUS)

        def forward(self, obs, state=None, info=None):
            return self.gaussian(obs, state)

    torch.manual_seed(seed)
    return vector_ppo(
        "independent",
        actions=CONTINUOUS,
        max_batchsize=max_batchsize,
        seed=seed,
        device=device,
        actor=Actor(),
        cls=ChunkedGAIL if chunked else GAIL,
        expert_buffer=vector_rollout(rows, CONTINUOUS, seed=seed + 1)[1],
        disc_net=mlp(FEATURES + CONTINUOUS, 1).to(device),
        disc_optim=TorchOptimizerFactory(torch.optim.SGD, lr=SGD["lr"]),
        **SGD,
    )


def icm(chunked: bool, rows: int, max_batchsize: int, seed: int, device: str):
    from tianshou.algorithm import ICMOnPolicyWrapper
    from tianshou.algorithm.optim import TorchOptimizerFactory
    from tianshou.utils.net.discrete import IntrinsicCuriosityModule

    from rlrepro.fixes import ChunkedICMOnPolicyWrapper

    torch.manual_seed(seed)
    networks: list[nn.Module] = [DiscreteActor(FEATURES, ACTIONS), VectorCritic(FEATURES)]
    curiosity = IntrinsicCuriosityModule(
        feature_net=mlp(FEATURES, 32), feature_dim=32, action_dim=ACTIONS, hidden_sizes=(HIDDEN,)
    )
    options = {
        "wrapped_algorithm": ppo(*(net.to(device) for net in networks), max_batchsize=max_batchsize, **SGD),
        "model": curiosity.to(device),
        "optim": TorchOptimizerFactory(torch.optim.SGD, lr=SGD["lr"]),
        "lr_scale": 1.0,
        "reward_scale": 0.01,
        "forward_loss_weight": 0.2,
    }
    return (
        ChunkedICMOnPolicyWrapper(max_batchsize=max_batchsize, **options) if chunked else ICMOnPolicyWrapper(**options)
    )


ALGORITHMS = {"GAIL": (gail, CONTINUOUS), "ICM": (icm, None)}  # name: (constructor, continuous actions)


def measure_update(name: str, chunked: bool, rows: int, max_batchsize: int, seed: int = 0, device: str = "cpu") -> dict:
    """Peak bytes of preprocessing and of a whole update on a rollout of `rows` transitions, and the results.

    `rewards` (rows,) are the rewards after preprocessing, `weights` is one array of all weights after the first update,
    and `moved` is the largest change of a weight in that update.
    """
    from tianshou.utils.torch_utils import policy_within_training_step

    freeze_imports()
    construct, actions = ALGORITHMS[name]
    _, buffer, _ = vector_rollout(rows, actions, seed=seed)
    algorithm = construct(chunked, rows, max_batchsize, seed, device)
    np.random.seed(seed)  # tianshou shuffles with it

    def weights():
        return torch.cat([parameter.detach().flatten() for parameter in algorithm.parameters()]).cpu().numpy()

    results = {}

    def prepare():
        batch, indices = buffer.sample(0)
        results.setdefault("rewards", np.asarray(preprocess(algorithm, batch, buffer, indices).rew))

    def update():
        with policy_within_training_step(algorithm.policy):
            algorithm.update(buffer, batch_size=max_batchsize, repeat=1)
        results.setdefault("weights", weights())

    before = weights()
    peaks = {
        "preprocess_peak_bytes": peak_memory(prepare, device=device).peak_bytes,
        "update_peak_bytes": peak_memory(update, device=device).peak_bytes,
    }
    return peaks | results | {"moved": float(np.abs(results["weights"] - before).max())}
