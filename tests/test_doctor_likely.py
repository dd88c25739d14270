"""Does the doctor find likely problems with low confidence, also across modules, and fast enough?"""

import textwrap
import time

import pytest

from rlrepro.doctor import examine

from .doctor_corpus_found import LIKELY

LISTS = {
    "agent.py": """
        import torch
        def learn(states, rewards):
            return torch.tensor(states), torch.tensor(rewards)
        """,
    "train.py": """
        from agent import learn
        states, rewards = [], []
        states.append(env.reset())
        rewards.append(reward)
        learn(states, rewards)
        """,
}
SAMPLES = {
    "memory.py": """
        class Memory:
            def sample(self, size):
                return Transition(*zip(*self.transitions))
        """,
    "agent.py": """
        import torch
        from memory import *
        memory = Memory()
        batch = memory.sample(64)
        states = torch.tensor(batch.state)
        """,
}
BEFORE_AND_AFTER = """
import torch
def update(policy, buffer, train):
    old = policy.evaluate_actions(buffer.obs[:-1].reshape(-1, 8))
    train(buffer)
    new = policy.evaluate_actions(buffer.obs[:-1].reshape(-1, 8))
    return torch.exp(new - old)
"""


@pytest.mark.parametrize("title", LIKELY)
def test_likely_problems_have_low_confidence_and_no_automatic_fix(tmp_path, title):
    (tmp_path / "train.py").write_text(LIKELY[title][2])
    report = examine([tmp_path])
    assert {finding.confidence for finding in report.findings} == {"low"} and not report.edits


@pytest.mark.parametrize("files", [LISTS, SAMPLES], ids=["from a caller", "from a sampler"])
def test_lists_are_followed_into_another_module(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    assert [finding.code for finding in examine([tmp_path]).findings] == ["TO001"]


def test_a_pass_before_and_one_after_the_update_are_two(tmp_path):
    (tmp_path / "runner.py").write_text(BEFORE_AND_AFTER)
    assert [(finding.code, finding.line) for finding in examine([tmp_path]).findings] == [("RO001", 4), ("RO001", 6)]


def test_many_lists_of_lists_are_searched_quickly(tmp_path):
    """Each list holds the next one, and each function passes its list to the next."""
    lists = [f"    states{k}.append(states{k + 1})\n    x{k} = torch.tensor(states{k})" for k in range(40)]
    chain = [f"def pass{k}(states):\n    x = torch.tensor(states)\n    pass{k + 1}(states)" for k in range(400)]
    (tmp_path / "train.py").write_text("\n".join(["import torch", "def fill():", *lists, *chain]))
    start = time.process_time()
    examine([tmp_path])
    assert time.process_time() - start < 5
