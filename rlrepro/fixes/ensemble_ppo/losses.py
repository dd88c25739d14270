"""The gradients of PPO's loss of each member of an ensemble, as in Stable-Baselines3."""

import math

import torch

from .rollout import Rollout
from .stacked_policies import StackedPolicies, joint


@torch.no_grad()
def write_gradients(
    networks: StackedPolicies, batch: Rollout, settings: dict, normalize: bool, curves=None, active=None
):
    """Writes the gradients of PPO's loss of each member to `networks.gradients`. Returns an estimate of the
    Kullback-Leibler divergence (K,) of its policy since the rollout. `settings` come from `Hyperparameters.for_update`;
    `curves` keeps the losses of `active` members (K,)."""
    actor_kept, critic_kept, size = [], [], batch.advantages.shape[1]
    outputs, advantages = networks.actor(batch.observations, actor_kept), batch.advantages
    if normalize and size > 1:
        deviation, mean = torch.std_mean(advantages, dim=1, keepdim=True)
        advantages = (advantages - mean) / (deviation + 1e-8)
    if networks.log_std is None:
        actions = batch.actions.long().unsqueeze(-1)
        logits = outputs - outputs.logsumexp(-1, keepdim=True)
        log_probs = logits.gather(-1, actions).squeeze(-1)
    else:
        log_std = networks.log_std.unsqueeze(1)
        scale = log_std.exp()
        z = (batch.actions - outputs) / scale
        log_probs = (z.square() * -0.5 - (log_std + 0.5 * math.log(2 * math.pi))).sum(-1)
    log_ratio = log_probs - batch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(settings["lowest_ratio"], settings["highest_ratio"])
    objective, clipped_objective = advantages * ratio, advantages * clipped
    # of the mean of -min(objective, clipped_objective), first with respect to log_probs, then to the outputs; torch
    # divides the gradient of a minimum equally if both are equal, as outside the clip range only rounding makes them
    share = (1 - (objective - clipped_objective).sign() + (ratio == clipped)) / 2
    gradient = (objective * share / -size).unsqueeze(-1)
    if networks.log_std is None:
        probs = logits.exp()
        gradient = (gradient * probs).neg_().scatter_add_(-1, actions, gradient)
        if "ent_coef" in settings:
            surprise = logits - (probs * logits).sum(-1, keepdim=True)
            gradient += settings["ent_coef"][:, None, None] / size * probs * surprise
    else:
        torch.sum(gradient * (z.square() - 1), 1, out=networks.gradients["log_std"])
        gradient = gradient * z / scale
        if "ent_coef" in settings:
            networks.gradients["log_std"].sub_(settings["ent_coef"].unsqueeze(1))
    networks.actor.backward(gradient, actor_kept)

    values = networks.critic(batch.observations, critic_kept).squeeze(-1)
    if "clip_range_vf" in settings:
        changes = values - batch.values
        limited = changes.clamp(-settings["clip_range_vf"], settings["clip_range_vf"])
        values = batch.values + limited
    errors = values - batch.returns
    gradient = settings["vf_coef"].unsqueeze(1) * 2 / size * errors
    if "clip_range_vf" in settings:
        gradient *= changes == limited
    networks.critic.backward(gradient.unsqueeze(-1), critic_kept)

    divergence = (ratio - 1 - log_ratio).mean(1)
    if curves is not None:
        policy_loss, value_loss = -torch.min(objective, clipped_objective).mean(1), errors.square().mean(1)
        entropy, clips = joint(networks.distribution_of(outputs).entropy()).mean(1), (ratio != clipped).float().mean(1)
        loss = policy_loss + settings["vf_coef"] * value_loss - settings.get("ent_coef", 0) * entropy
        curves.add(active, loss, policy_loss, value_loss, -entropy, divergence, clips)
    return divergence
