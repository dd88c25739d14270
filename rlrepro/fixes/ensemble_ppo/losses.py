"""PPO's loss of each member of an ensemble, as in Stable-Baselines3."""

import torch

from .rollout import Rollout
from .stacked_policies import StackedPolicies, joint


def losses_of(networks: StackedPolicies, batch: Rollout, settings: dict, normalize: bool, curves=None, active=None):
    """PPO's loss of each member (K,), and an estimate of the Kullback-Leibler divergence (K,) of its policy since the
    rollout. `settings` come from `Hyperparameters.for_update`; `curves` keeps the losses of `active` members (K,)."""
    distribution = networks.distribution(batch.observations)
    values = networks.values(batch.observations)  # (K, B)
    advantages = batch.advantages
    if normalize and advantages.shape[1] > 1:
        deviation, mean = torch.std_mean(advantages, dim=1, keepdim=True)
        advantages = (advantages - mean) / (deviation + 1e-8)
    log_ratio = joint(distribution.log_prob(batch.actions)) - batch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(settings["lowest_ratio"], settings["highest_ratio"])
    policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean(1)
    if "clip_range_vf" in settings:
        values = batch.values + (values - batch.values).clamp(-settings["clip_range_vf"], settings["clip_range_vf"])
    value_loss = (batch.returns - values).square().mean(1)
    loss = policy_loss + settings["vf_coef"] * value_loss
    if "ent_coef" in settings:
        loss = loss - settings["ent_coef"] * joint(distribution.entropy()).mean(1)
    with torch.no_grad():
        divergence = (ratio - 1 - log_ratio).mean(1)
        if curves is not None:
            entropy, clips = joint(distribution.entropy()).mean(1), (ratio != clipped).float().mean(1)
            curves.add(active, loss, policy_loss, value_loss, -entropy, divergence, clips)
    return loss, divergence
