"""Calls of networks that may or may not get a whole rollout at once: validation, simulations, recurrent states."""

VALIDATED = """
import torch
def run(model, train, data, epochs):
    for epoch in range(epochs):
        step(model, train.next(), data)
def step(model, batch, data):
    {}
    loss(model, batch).backward()
"""
SIMULATED = """
import torch
def imagine(agent, model, states, steps):
    for step in range(steps):
        actions = agent.policy(states)
        actions = actions.detach()
        {} = model.simulate(states, actions)
    return actions
"""
REMEMBERING = """
import {}
class Agent:
    def {}(self, obs, {}):
        value, states = self.critic(obs, {})
        return value.detach(), states
"""
IN_MODE = """
import torch
@torch.{}()
def prepare(critic, states):
    values = critic(states)
    return values.detach()
"""
SAMPLED = """
import torch
from torch.utils.data import BatchSampler, SubsetRandomSampler
def update(critic, buffer, returns):
    states = buffer.states()
    values = critic(states)
    for index in {}:
        (critic(states[index]) - returns[index]).mean().backward()
    return values
"""

LIKELY = {
    "a rollout that a sampler splits": (
        {"RO001"},
        {},
        SAMPLED.format("BatchSampler(SubsetRandomSampler(range(2048)), 64, False)"),
    ),
    "epochs on everything by a function": ({"RO002"}, {}, VALIDATED.format("print(model(data))")),
    "values of a rollout that is simulated": ({"RO001"}, {}, SIMULATED.format("simulated")),
    "values of a named rollout": ({"RO001"}, {}, REMEMBERING.format("torch", "prepare", "states", "states")),
    "values in a mode with gradients": ({"RO001"}, {}, IN_MODE.format("enable_grad")),
}
UNLIKELY = {
    "single states": ({}, SAMPLED.format("range(batch_size)")),
    "epochs that validate without gradients": (
        {},
        VALIDATED.format("with torch.no_grad():\n        print(model(data))"),
    ),
    "epochs that take another rollout part by part": (
        {},
        VALIDATED.format("for k in range(0, 512, 64):\n        model(data), model(batch[k : k + 64]).backward()"),
    ),
    "values of the current states of a simulation": ({}, SIMULATED.format("states")),
    "values of recurrent states": ({}, REMEMBERING.format("torch", "prepare", "rnn_states", "rnn_states")),
    "values that RLlib's method for actions returns": (
        {},
        REMEMBERING.format("torch", "compute_single_action", "states", "states"),
    ),
    "values that a batch of agents acts on": ({}, REMEMBERING.format("torch", "batch_act", "states", "states")),
    "values of another framework": ({}, REMEMBERING.format("chainer", "prepare", "states", "states")),
    "values in inference mode": ({}, IN_MODE.format("inference_mode")),
}
