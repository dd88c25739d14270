"""Single-file updates in the usual style, for tests of plans: make() and step(state, ...) of six algorithms, and of one
layer; and what an update takes on a virtual card."""

from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, Normal

from rlrepro.fit import stage
from rlrepro.lab import VirtualCard

DEVICE = "cpu"
OBS, ACTIONS = 24, 6


def mlp(inputs, outputs, width=96):
    return nn.Sequential(
        nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)
    )


class Buffer:
    """A replay buffer in host memory, full."""

    def __init__(self, capacity, actions=0):
        self.obs, self.next_obs = (np.zeros((capacity, OBS), np.float32) for _ in range(2))
        self.act = np.zeros((capacity, actions), np.float32) if actions else np.zeros((capacity, 1), np.int64)
        self.rew, self.done = (np.zeros((capacity, 1), np.float32) for _ in range(2))

    def sample(self, size):
        rows = np.random.randint(0, len(self.rew), size)
        arrays = (self.obs, self.next_obs, self.act, self.rew, self.done)
        return [torch.tensor(array[rows]).to(DEVICE) for array in arrays]


def make_ppo():
    agent = nn.ModuleDict({"actor": mlp(OBS, ACTIONS), "critic": mlp(OBS, 1)}).to(DEVICE)
    return SimpleNamespace(agent=agent, optimizer=torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5))


def ppo(state, steps=32, envs=8, batch_size=64):
    obs = torch.zeros(steps, envs, OBS, device=DEVICE)
    actions, logprobs, values = (torch.zeros(steps, envs, device=DEVICE) for _ in range(3))
    with stage("collect"), torch.no_grad():
        for t in range(steps):
            obs[t] = torch.as_tensor(np.zeros((envs, OBS), np.float32)).to(DEVICE)
            policy = Categorical(logits=state.agent["actor"](obs[t]))
            actions[t] = policy.sample()
            logprobs[t], values[t] = policy.log_prob(actions[t]), state.agent["critic"](obs[t]).flatten()
            actions[t].cpu().numpy()
    with stage("learn"):
        learn_ppo(state, [tensor.flatten(0, 1) for tensor in (obs, actions, logprobs, values)], batch_size)


def learn_ppo(state, data, batch_size):
    order = np.arange(len(data[0]))
    np.random.shuffle(order)
    for start in range(0, len(order), batch_size):
        obs, actions, old, returns = (tensor[order[start : start + batch_size]] for tensor in data)
        policy = Categorical(logits=state.agent["actor"](obs))
        ratio = (policy.log_prob(actions) - old).exp()
        with torch.no_grad():
            ((ratio - 1).abs() > 0.2).float().mean().item()
        advantage = (returns - returns.mean()) / (returns.std() + 1e-8)
        clipped = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
        value = ((state.agent["critic"](obs).view(-1) - returns) ** 2).mean()
        state.optimizer.zero_grad()
        (clipped + 0.5 * value - 0.01 * policy.entropy().mean()).backward()
        nn.utils.clip_grad_norm_(state.agent.parameters(), 0.5)
        state.optimizer.step()


def make_lstm():
    parts = {"body": nn.Linear(OBS, 64), "lstm": nn.LSTM(64, 32), "actor": nn.Linear(32, ACTIONS)}
    agent = nn.ModuleDict(parts).to(DEVICE)
    return SimpleNamespace(agent=agent, optimizer=torch.optim.Adam(agent.parameters()))


def lstm(state, steps=8, envs=16):
    obs, dones = torch.zeros(steps, envs, OBS, device=DEVICE), torch.zeros(steps, envs, device=DEVICE)
    memory, hidden = [torch.zeros(1, envs, 32, device=DEVICE) for _ in range(2)], []
    for features, done in zip(state.agent["body"](obs).relu(), dones, strict=True):
        keep = (1.0 - done).view(1, -1, 1)
        output, memory = state.agent["lstm"](features.unsqueeze(0), (keep * memory[0], keep * memory[1]))
        hidden.append(output)
    policy = Categorical(logits=state.agent["actor"](torch.cat(hidden).flatten(0, 1)))
    state.optimizer.zero_grad()
    (-policy.log_prob(policy.sample()).mean() - policy.entropy().mean()).backward()
    state.optimizer.step()


def make_dqn(atoms=1, capacity=100_000):
    q, target = (mlp(OBS, ACTIONS * atoms).to(DEVICE) for _ in range(2))
    target.load_state_dict(q.state_dict())
    return SimpleNamespace(q=q, target=target, optimizer=torch.optim.Adam(q.parameters()), buffer=Buffer(capacity))


def dqn(state, batch_size=128):
    obs, next_obs, act, rew, done = state.buffer.sample(batch_size)
    with torch.no_grad():
        goal = rew.flatten() + 0.99 * state.target(next_obs).max(dim=1)[0] * (1 - done.flatten())
    loss = F.mse_loss(goal, state.q(obs).gather(1, act).squeeze())
    state.optimizer.zero_grad()
    loss.backward()
    state.optimizer.step()
    for param, target_param in zip(state.q.parameters(), state.target.parameters(), strict=True):
        target_param.data.copy_(0.01 * param.data + 0.99 * target_param.data)
    loss.item()


def c51(state, batch_size=128, atoms=51):
    obs, next_obs, act, rew, done = state.buffer.sample(batch_size)
    support, rows = torch.linspace(-10, 10, atoms, device=DEVICE), torch.arange(batch_size, device=DEVICE)
    with torch.no_grad():
        next_dist = state.target(next_obs).view(-1, ACTIONS, atoms).softmax(2)
        best_dist = next_dist[rows, (next_dist * support).sum(2).argmax(1)]
        position = ((rew + 0.99 * support * (1 - done)).clamp(-10, 10) + 10) / 0.4
        low, high = position.floor().clamp(0, atoms - 1), position.ceil().clamp(0, atoms - 1)
        goal = torch.zeros_like(best_dist)
        for i in range(goal.size(0)):
            goal[i].index_add_(0, low[i].long(), ((high - position) * best_dist)[i])
    logits = state.q(obs).view(-1, ACTIONS, atoms)[rows, act.flatten()]
    state.optimizer.zero_grad()
    (-(goal * logits.log_softmax(1)).sum(-1)).mean().backward()
    state.optimizer.step()


def make_sac(capacity=1_000_000):
    actor, q, target = (mlp(*sizes).to(DEVICE) for sizes in ((OBS, 8), (OBS + 4, 1), (OBS + 4, 1)))
    target.load_state_dict(q.state_dict())
    alpha = torch.zeros(1, requires_grad=True, device=DEVICE)
    optimizers = [torch.optim.Adam(parameters) for parameters in (actor.parameters(), q.parameters(), [alpha])]
    return SimpleNamespace(
        actor=actor, q=q, target=target, alpha=alpha, optimizers=optimizers, buffer=Buffer(capacity, 4)
    )


def sac(state, batch_size=256):
    obs, next_obs, act, rew, done = state.buffer.sample(batch_size)
    alpha = state.alpha.exp().item()

    def explore(rows):
        mean, log_std = state.actor(rows).chunk(2, -1)
        normal = Normal(mean, log_std.tanh().exp())
        raw = normal.rsample()
        return raw.tanh(), (normal.log_prob(raw) - torch.log(1 - raw.tanh().pow(2) + 1e-6)).sum(1, keepdim=True)

    with torch.no_grad():
        next_actions, logp = explore(next_obs)
        goal = rew + 0.99 * (1 - done) * (state.target(torch.cat([next_obs, next_actions], 1)) - alpha * logp)
    losses = [lambda: F.mse_loss(state.q(torch.cat([obs, act], 1)), goal)]
    losses.append(lambda: (alpha * explore(obs)[1] - state.q(torch.cat([obs, explore(obs)[0]], 1))).mean())
    losses.append(lambda: (-state.alpha.exp() * explore(obs)[1].detach()).mean())
    for optimizer, loss in zip((state.optimizers[1], state.optimizers[0], state.optimizers[2]), losses, strict=True):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def td3(state, batch_size=256):
    obs, next_obs, act, rew, done = state.buffer.sample(batch_size)
    with torch.no_grad():
        noise = (torch.randn_like(act) * 0.2).clamp(-0.5, 0.5)
        next_actions = (state.actor(next_obs)[:, :4] + noise).clamp(-1, 1)
        goal = rew + 0.99 * (1 - done) * state.target(torch.cat([next_obs, next_actions], 1))
    for index, optimizer in enumerate(reversed(state.optimizers[:2])):
        action = state.actor(obs)[:, :4] if index else act
        value = state.q(torch.cat([obs, action], 1))
        optimizer.zero_grad()
        (-value.mean() if index else F.mse_loss(value, goal)).backward()
        optimizer.step()


UPDATES = {
    "PPO": (make_ppo, ppo),
    "PPO-LSTM": (make_lstm, lstm),
    "DQN": (make_dqn, dqn),
    "C51": (lambda: make_dqn(atoms=51), c51),
    "SAC": (make_sac, sac),
    "TD3": (make_sac, td3),
}


class Tiny:
    def __init__(self, device="cpu"):
        self.net = nn.Linear(64, 64).to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters())
        self.ema = torch.optim.swa_utils.AveragedModel(self.net) if device == "cpu" else None


def learn(state, loss):
    state.optimizer.zero_grad()
    loss.backward()
    state.optimizer.step()


def measured(make, step, **sizes) -> int:
    """Peak of live bytes of the second update."""
    with VirtualCard(64, device="cpu") as card:
        state = make()
        step(state, **sizes)
        card.restart_peak()
        step(state, **sizes)
        return card.peak_bytes
