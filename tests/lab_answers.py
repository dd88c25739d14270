"""Half-right and wrong answers to the labs."""

import torch


def logp_with_graph(policy, batch):
    parts = batch.split(policy.max_batchsize, shuffle=False)
    return torch.cat([policy(part).dist.log_prob(part.act) for part in parts])


@torch.no_grad()
def logp_with_remainder_joined(policy, batch):
    parts = batch.split(policy.max_batchsize, shuffle=False, merge_last=True)
    return torch.cat([policy(part).dist.log_prob(part.act) for part in parts])


@torch.no_grad()
def logp_shuffled(policy, batch):
    return torch.cat([policy(part).dist.log_prob(part.act) for part in batch.split(policy.max_batchsize)])


def cached_sampler(**options):
    from torchrl.data.replay_buffers.samplers import SliceSampler

    return SliceSampler(cache_values=True, **options)


def stale_sampler(**options):
    from torchrl.data.replay_buffers.samplers import SliceSampler

    class Stale(SliceSampler):
        def _get_stop_and_length(self, storage, fallback=True):
            if "known" not in vars(self):
                self.known = super()._get_stop_and_length(storage, fallback)
            return self.known

    return Stale(**options)


def best_of_chunks(net, states, actions, offset=True):
    """Every pair in full, though only a few at a time."""
    best = []
    for start in range(0, len(actions), 250):
        part = actions[start : start + 250]
        pairs = torch.cat([states[:, None].expand(-1, len(part), -1), part.expand(len(states), -1, -1)], dim=2)
        values, indices = net(pairs).squeeze(-1).max(dim=1)
        best.append((values, indices + start * offset))
    values, indices = (torch.stack(column) for column in zip(*best, strict=True))
    winner = values.argmax(dim=0, keepdim=True)
    return values.gather(0, winner)[0], indices.gather(0, winner)[0]


def best_without_offset(net, states, actions):
    return best_of_chunks(net, states, actions, offset=False)


def best_of_all_split(net, states, actions):
    """The first layer split, but for all pairs at once."""
    layers = [layer for block in net for layer in (block if isinstance(block, torch.nn.Sequential) else (block,))]
    first, width = layers[0], states.shape[1]
    hidden = (states @ first.weight[:, :width].T)[:, None] + actions @ first.weight[:, width:].T + first.bias
    return torch.nn.Sequential(*layers[1:])(hidden).squeeze(-1).max(dim=1)


def values_with_graph(compute_values, batch, size):
    def pick(value, rows):
        return {key: pick(nested, rows) for key, nested in value.items()} if isinstance(value, dict) else value[rows]

    slices = (slice(start, start + size) for start in range(0, len(batch["rewards"]), size))
    return torch.cat([compute_values(pick(dict(batch), rows)) for rows in slices])


@torch.no_grad()
def values_at_once(compute_values, batch, size):
    return compute_values(batch)


@torch.no_grad()
def values_reversed(compute_values, batch, size):
    return compute_values(batch).flip(0)


def gradients_off_for_good(collector):
    torch.set_grad_enabled(False)


def nothing(collector):
    pass


def other_actions(collector):
    collect = collector.collect

    def collecting(*args, **options):
        torch.manual_seed(1)
        with torch.no_grad():
            return collect(*args, **options)

    collector.collect = collecting


def pool_with_all_threads(train, configs):
    from multiprocessing import Pool

    with Pool(len(configs)) as pool:
        return [run.get(300) for run in [pool.apply_async(train, kwds=config) for config in configs]]


def first_come(train, configs):
    return [train(**config) for config in reversed(configs)]


def nan_without_copies(buffer):
    """All of the arrays, though none is copied."""
    import numpy as np

    leaves = [buffer._meta]
    while leaves:
        leaf = leaves.pop()
        if isinstance(leaf, np.ndarray):
            if leaf.dtype.kind == "f" and np.isnan(leaf[: len(buffer)]).any():
                return True
        elif leaf is not None:
            leaves += [leaf[key] for key in leaf.get_keys()]
    return False


def nan_in_last(buffer):
    return bool(buffer[[buffer._insertion_idx - 1]].hasnull())


def env_that_naps(*args, **options):
    from torchrl.envs import ParallelEnv

    class Napping(ParallelEnv):
        def _wait_for_workers(self, workers_range):
            import time

            flags = self._shm_done_flags
            for worker in workers_range:
                while not flags[worker]:
                    time.sleep(0.008)
                flags[worker] = 0

    return Napping(*args, **options)


def env_that_clears_nothing(*args, **options):
    from torchrl.envs import ParallelEnv

    class Careless(ParallelEnv):
        def _wait_for_workers(self, workers_range):
            import time

            while not all(self._shm_done_flags[worker] for worker in workers_range):
                time.sleep(1e-4)

    return Careless(*args, **options)
