"""Data loaders over tensors in memory, and over samples that must be fetched one by one."""

DATASET = """
import torch
from torch.utils.data import DataLoader, Dataset
def features(game):
    return game.board.float()
class Rollout(Dataset):
    def __getitem__(self, index):
        return {}
def rollouts():
    return Rollout(data)
for batch in DataLoader(Rollout(data), batch_size=64, shuffle=True):
    loss(batch).backward()
"""
LOADED = """
import torch
from torch.utils.data import DataLoader, Dataset
class Rollout(Dataset):
    def __init__(self, items: {}):
        self.items = items
    def __getitem__(self, index):
        return self.items[index]
for batch in DataLoader(Rollout(data), shuffle=True, {}):
    loss(batch).backward()
"""
MADE_DATASET = """
import torch
from torch.utils.data import DataLoader, Dataset
class Rollout(Dataset):
    def __getitem__(self, index):
        return self.states[index]
class Environment:
    def dataset(self):
        return {}
for batch in DataLoader(environment.dataset(), batch_size=64, shuffle=True):
    loss(batch).backward()
"""
ZIPPED = """
import torch
from torch.utils.data import DataLoader
def update(policy, {}, returns):
    targets = {}
    for batch in DataLoader(list(zip({}, targets)), batch_size=64, shuffle=True):
        policy.loss(batch).backward()
"""
PASSED = """
import torch
from torch.utils.data import DataLoader, Dataset
class Memory(Dataset):
    def __getitem__(self, index):
        return {}
class Trainer:
    def __init__(self, model, memory):
        self.memory = memory
    def train(self):
        for batch in DataLoader(self.memory, batch_size=64, shuffle=True):
            loss(batch).backward()
def main():
    memory = Memory()
    Trainer(model, {}).train()
"""

LIKELY = {
    "a list of tuples of states": ({"TO004"}, {}, ZIPPED.format("states", "returns", "states")),
    "a list of tuples with a tensor": ({"TO004"}, {}, ZIPPED.format("x", "torch.stack(returns).flatten()", "x")),
    "a memory that is passed to a trainer": ({"TO004"}, {}, PASSED.format("self.transitions[index]", "memory")),
    "a memory that is passed by its name": ({"TO004"}, {}, PASSED.format("self.transitions[index]", "memory=memory")),
    "a data set over tensors": (
        {"TO004"},
        {},
        DATASET.format('{"obs": self.obs[index], "action": self.actions[index]}'),
    ),
    "a data set over tensors that a method returns": ({"TO004"}, {}, MADE_DATASET.format("Rollout(data)")),
    "a data set over tensors in batches": ({"TO004"}, {}, LOADED.format("torch.Tensor", "batch_size=64")),
}
UNLIKELY = {
    "a list of tuples of texts": ({}, ZIPPED.format("prompts", "returns", "prompts")),
    "a list of tuples of files": ({}, ZIPPED.format("state_files", "returns", "state_files")),
    "files that are passed to a trainer": ({}, PASSED.format("torch.load(self.paths[index])", "memory")),
    "another data set that is passed to a trainer": ({}, PASSED.format("self.transitions[index]", "images")),
    "a data set of files": ({}, DATASET.format("torch.load(self.paths[index])")),
    "a data set that pads its samples": ({}, DATASET.format("torch.cat([self.states[index], self.padding])")),
    "a data set that computes its samples": ({}, DATASET.format("features(self.games[index])")),
    "a data set of texts": ({}, LOADED.format("list[dict[str, str]]", "batch_size=64")),
    "a loader that pads its samples": ({}, LOADED.format("torch.Tensor", "batch_size=64, collate_fn=pad")),
    "a loader of single samples": ({}, LOADED.format("torch.Tensor", "batch_size=1")),
    "a data set of files that a method returns": ({}, MADE_DATASET.format("ImageFolder(data)")),
}
