"""Programs with problems that the doctor reports with low confidence only, and innocent ones that look like them.

LIKELY    title: (codes, releases, text)
UNLIKELY  title: (releases, text)
"""

from .doctor_corpus import datasets, likely_rollouts

EPISODE = """
import numpy as np
import torch
def update(episode):
    return torch.tensor(episode["states"])
episode = {{"states": [], "rewards": []}}
{}
update(episode)
"""
CALLER = """
import numpy as np
import torch
def train_step(state_batch):
    return torch.FloatTensor(state_batch)
state_batch = {}
train_step(state_batch)
"""
NESTED = """
import torch
def batches(episodes):
    whole = []
    for episode in episodes:
        part = []
        for transition in episode:
            s, a, r, s_prime = transition
            part.append({})
        whole.append(part)
    return torch.tensor(whole)
"""
EXTENDED = """
import torch
chosen = []
for steps in episodes:
    chosen.extend(map(lambda step: step.{}, steps))
chosen_v = torch.FloatTensor(chosen)
"""
SAMPLER = """
import numpy as np
import torch
class RankedMemory:
    def sample(self, size):
        return np.stack(self.observations), np.stack(self.rewards)
class Memory:
    def sample(self, size):
        observations, rewards = [], []
        for observation, reward in random.sample(self.buffer, size):
            observations.append(observation)
            rewards.append(reward)
        return {}, rewards
class Agent:
    def __init__(self):
        self.memory = Memory()
    def learn(self):
        observations, rewards = self.memory.sample(32)
        return torch.tensor(observations), torch.tensor(rewards)
"""
NAMED_TUPLE = """
import torch
class Memory:
    def sample(self, size):
        return Transition(*zip(*random.sample(self.buffer, size)))
memory = Memory()
batch = memory.sample(32)
x = torch.tensor(batch.{})
"""
RESETS = "import torch\nstarts = [{} for env in envs]\nx = torch.FloatTensor(starts)"
LETTERS = "import torch\nS0, A0, R1, S1 = zip(*random.sample(memory, 32))\nx = torch.tensor({}, dtype=torch.float)"
RESULTS = "import torch\nfor x in batches:\n    results.append({}.cpu().numpy())\ny = torch.tensor(results)"
POSITIONS = "import torch\n{} = torch.FloatTensor([sample[0] for sample in samples]).to(device)"

DETACHED = """
import torch
def update(critic, optimizer, states, returns):
    values = critic(states)
    advantages = returns - values.detach()
    {}
    return advantages
"""
ACTING = """
import torch
class Agent:
    def {}(self, states):
        values = self.net(states)
        return values.detach().cpu().numpy()
"""
MODEL = """
import torch
def training_step(self, embedding, importance_samples{}):
    prior, posterior = self.core.forward(embedding, importance_samples)
    return prior.detach()
"""
SPLIT_ELSEWHERE = """
import torch
class Algorithm:
    def update(self, obs, returns):
        self._train(obs, returns)
        return self._compute_loss({}).item()
    def _train(self, obs, returns):
        for start in range(0, len(obs), 64):
            self._compute_loss(obs[start : start + 64]).backward()
"""
RETURNED = """
import torch
def prepare(critic, batch):
    {0} = torch.stack(batch.state)
    values = critic({0})
    return {0}, values
def train(critic, states, values):
    for start in range(0, len(states), 64):
        (critic(states[start : start + 64]) - values[start : start + 64]).mean().backward()
"""
LOADER = """
import torch
def update(policy, data):
    {}
    loader = make_loader(data, 64)
    for batch in loader:
        policy(batch["obs"]).mean().backward()
"""
INDEXED = """
import torch
def update(net, states, targets):
    for index in BatchSampler(range(len(states)), 64):
        ({} - targets[0]).mean().backward()
"""
JOINED = """
import torch
def update(discriminator, states, actions):
    scores = discriminator(torch.cat([{}, actions], 1))
    for start in range(0, len(states), 64):
        discriminator(states[start : start + 64]).mean().backward()
"""
EPOCHS = """
import torch
class Algorithm:
    def update(self, data):
        for epoch in range(self.epochs):
            {}
            loss.backward()
    def compute_loss(self, data):
        obs, returns = data["obs"], data["returns"]
        return (self.critic(obs) - returns).mean()
"""
PLAYERS = """
import torch
from multiprocessing import Process
def play(net):
    state = env.reset()
    {}
for k in range(8):
    Process(target=play, args=(net,)).start()
"""
BESIDE = """
import torch
from multiprocessing import Process
def play(net, queue):
    queue.put(net(env.reset()))
Process(target=play, args=(net, queue)).start()
while True:
    loss = net(queue.get()).mean()
    {}
"""

LIKELY = datasets.LIKELY | {
    "lists of an episode in a dictionary": ({"TO001"}, {}, EPISODE.format('episode["states"].append(state)')),
    "a list that a caller passes": ({"TO001"}, {}, CALLER.format("[sample[0] for sample in minibatch]")),
    "an observation of each agent": ({"TO001"}, {}, "import torch\ndef act(obs_n):\n    return torch.tensor(obs_n)"),
    "lists of arrays in a list": ({"TO001"}, {}, NESTED.format("s")),
    "a list that is extended by attributes": ({"TO001"}, {}, EXTENDED.format("observation")),
    "a sampler that returns lists that it filled": ({"TO001"}, {}, SAMPLER.format("observations")),
    "a sampler that returns a named tuple": ({"TO001"}, {}, NAMED_TUPLE.format("next_state")),
    "the first observations of several environments": ({"TO001"}, {}, RESETS.format("env.reset()")),
    "states by a letter and a number": ({"TO001"}, {}, LETTERS.format("S1")),
    "a list of results from the GPU": ({"TO001"}, {}, RESULTS.format("output")),
    "states by their position": ({"TO001"}, {}, POSITIONS.format("s")),
    "an advantage module": (
        {"RO001"},
        {},
        "import torchrl\nfor batch in collector:\n    self.advantage_module(batch)\n    optim.step()",
    ),
    "values that are detached": ({"RO001"}, {}, DETACHED.format("optimizer.zero_grad()")),
    "values of a method that computes them": ({"RO001"}, {}, ACTING.format("values_of")),
    "samples that pass through a model": ({"RO001"}, {}, MODEL.format("")),
    "a loss of what a method splits": ({"RO001"}, {}, SPLIT_ELSEWHERE.format("obs")),
    "values of what another function splits": ({"RO001"}, {}, RETURNED.format("states")),
    "logits of what a loader splits": ({"RO001"}, {}, LOADER.format('data["logits"] = policy(data["obs"])')),
    "outputs that are indexed afterwards": ({"RO001"}, {}, INDEXED.format("net(states)[index]")),
    "a rollout joined with another": ({"RO001"}, {}, JOINED.format("states")),
    "epochs on everything by a method": ({"RO002"}, {}, EPOCHS.format("loss = self.compute_loss(data)")),
    "processes that play with a network": ({"PT001"}, {}, PLAYERS.format("env.step(net(state))")),
    "one process beside a training run": ({"PT001"}, {}, BESIDE.format("loss.backward()")),
    "a setting for anomaly detection": ({"TO002"}, {}, 'config = {"lr": 1e-3, "set_detect_anomaly": True}'),
}

UNLIKELY = datasets.UNLIKELY | {
    "arrays of an episode in a dictionary": ({}, EPISODE.format('episode["states"] = np.stack(states)')),
    "an array that a caller passes": ({}, CALLER.format("np.array([sample[0] for sample in minibatch])")),
    "an observation of one agent": ({}, "import torch\ndef act(obs):\n    return torch.tensor(obs)"),
    "lists of numbers in a list": ({}, NESTED.format("r")),
    "a list that is extended by numbers": ({}, EXTENDED.format("action")),
    "a sampler that returns an array of what it filled": ({}, SAMPLER.format("np.array(observations)")),
    "rewards of a named tuple": ({}, NAMED_TUPLE.format("reward")),
    "the first scores of several environments": ({}, RESETS.format("0.0")),
    "rewards by a letter and a number": ({}, LETTERS.format("R1")),
    "a list of losses from the GPU": ({}, RESULTS.format("loss.mean()")),
    "rewards by their position": ({}, POSITIONS.format("r")),
    "rewards of transitions with a short name": ({}, "import torch\nr = torch.Tensor([s[2] for s in samples])"),
    "an advantage module of another library": (
        {},
        "import torch\nfor batch in collector:\n    self.advantage_module(batch)\n    optim.step()",
    ),
    "values that are learned from as well": ({}, DETACHED.format("(values - returns).mean().backward()")),
    "values that an agent acts on": ({}, ACTING.format("__call__")),
    "values of a tree search": ({}, ACTING.format("search_minibatch")),
    "a number of samples": ({}, MODEL.format(": int = 1")),
    "a loss of a part of what a method splits": ({}, SPLIT_ELSEWHERE.format("obs[:8]")),
    "values of something that nothing splits": ({}, RETURNED.format("goals")),
    "a loader of everything": ({}, LOADER.format("pass")),
    "an index before the network": ({}, INDEXED.format("net(states[index])")),
    "an expert's rollout joined with another": ({}, JOINED.format("expert")),
    "epochs on samples by a method": ({}, EPOCHS.format("loss = self.compute_loss(self.buffer.sample(64))")),
    "processes that play at random": ({}, PLAYERS.format("env.step(env.action_space.sample())")),
    "one process beside a parent that waits": ({}, BESIDE.format("print(loss)")),
    "a setting against anomaly detection": ({}, 'config = {"lr": 1e-3, "set_detect_anomaly": False}'),
}

LIKELY |= likely_rollouts.LIKELY
UNLIKELY |= likely_rollouts.UNLIKELY
