import sys

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSliceSampler, ReplayBuffer

ENVS, STEPS, SLICE = 3, 20, 4
WRITTEN, EPISODES = 47, (7, 8, 9)  # steps in all, and the length of an episode of each environment


def rollout():  # (environments, steps)
    steps, lengths = torch.arange(WRITTEN), torch.tensor(EPISODES)[:, None]
    episode, step = steps // lengths + 100 * torch.arange(ENVS)[:, None], steps % lengths
    return TensorDict({"episode": episode, "step": step}, [ENVS, WRITTEN])


def slices(envs, **options):
    """How many different slices are sampled, and how many of them are not consecutive steps of one episode."""
    sampler = PrioritizedSliceSampler(envs * STEPS, alpha=1.0, beta=1.0, slice_len=SLICE, traj_key="episode", **options)
    storage = LazyTensorStorage(envs * STEPS, ndim=1 if envs == 1 else 2)
    buffer = ReplayBuffer(storage=storage, sampler=sampler, batch_size=1_000 * SLICE)
    for part in rollout()[:envs].split(6, dim=1):
        buffer.extend(part if envs > 1 else part[0])
    batch, info = buffer.sample(return_info=True)
    ends = info["next", "truncated"].flatten().nonzero().flatten() + 1
    pairs = list(zip(batch["episode"].tolist(), batch["step"].tolist(), strict=True))
    sampled = {tuple(pairs[begin:end]) for begin, end in zip([0, *ends.tolist()], ends.tolist(), strict=False)}
    return len(sampled), sum(len({(e, s - i) for i, (e, s) in enumerate(steps)}) > 1 for steps in sampled)


total = 0
for name, envs, options in (
    ("one environment", 1, {}),
    ("one environment, span=(False, True)", 1, {"span": (False, True)}),
    ("three environments, ndim=2", 3, {}),
    ("three environments, ndim=2, strict_length=False", 3, {"strict_length": False}),
):
    sampled, invalid = slices(envs, **options)
    print(f"{name}: {invalid} of {sampled} slices are not consecutive steps of one episode")
    total += invalid
sys.exit(total > 0)
