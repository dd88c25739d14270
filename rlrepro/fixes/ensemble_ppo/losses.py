"""PPO's loss of each member of an ensemble, as in Stable-Baselines3."""

import torch

from .rollout import Rollout
from .stacked_policies import StackedPolicies, joint


def losses_of(
    networks: StackedPolicies, batch: Rollout, now: dict, normalize_advantage: bool, curves=None, active=None
):
    """PPO's loss of each member (K,), and how far its policy has moved since the rollout, as an estimate of the
    Kullback-Leibler divergence (K,). `now` is as `Hyperparameters.now` gives it; `curves`, if given, keep the parts of
    the loss, of the `active` members (K,)."""
    distribution = networks.distribution(batch.observations)
    values = networks.values(batch.observations)  # (K, B)
    advantages = batch.advantages
    if normalize_advantage and advantages.shape[1] > 1:
        deviation, mean = torch.std_mean(advantages, dim=1, keepdim=True)
        advantages = (advantages - mean) / (deviation + 1e-8)
    log_ratio = joint(distribution.log_prob(batch.actions)) - batch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(now["lowest_ratio"], now["highest_ratio"])
    policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean(1)
    if "clip_range_vf" in now:
        limit = now["clip_range_vf"]
        values = batch.values + (values - batch.values).clamp(-limit, limit)
    value_loss = (batch.returns - values).square().mean(1)
    loss = policy_loss + now["vf_coef"] * value_loss
    if "ent_coef" in now:
        loss = loss - now["ent_coef"] * joint(distribution.entropy()).mean(1)
    with torch.no_grad():
        divergence = (ratio - 1 - log_ratio).mean(1)
        if curves is not None:
            curves.add(
                active,
                loss=loss,
                policy_gradient_loss=policy_loss,
                value_loss=value_loss,
                entropy_loss=-joint(distribution.entropy()).mean(1),
                approx_kl=divergence,
                clip_fraction=((ratio < now["lowest_ratio"]) | (ratio > now["highest_ratio"])).float().mean(1),
            )
    return loss, divergence
