"""A watch rests most of the time: while it rests, it replaces nothing, and it estimates the unseen part of the run."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from rlrepro.doctor import watch
from rlrepro.doctor.live import rests
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.progress import Progress

HERE = str(Path(__file__).parent)
NAP = 0.005
COLLECTED, LEARNED = 4, 2  # steps of each kind in a cycle


class Slow(gymnasium.Env):
    def step(self, action):
        time.sleep(NAP)
        return np.zeros(4, np.float32), 1.0, False, False, {}


def train(cycles, network=None, each_cycle=lambda: None):
    """Collecting takes as long as learning."""
    env, network = Slow(), nn.Linear(4, 1) if network is None else network
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(cycles):
        for _ in range(COLLECTED):
            env.step(0)
        for _ in range(LEARNED):
            optimizer.zero_grad()
            loss = network(torch.ones(8, 4)).sum()
            time.sleep(NAP * COLLECTED / LEARNED)
            loss.backward()
            optimizer.step()
        each_cycle()


@pytest.fixture
def short_rests(monkeypatch):
    """The first rest comes soon, and rests take a few cycles."""
    cycle = 2 * NAP * COLLECTED
    monkeypatch.setattr(rests, "FIRST_SECONDS", 3 * cycle)
    monkeypatch.setattr(rests, "SECONDS", cycle / 2)
    monkeypatch.setattr(rests, "SHARE", 0.2)
    monkeypatch.setattr(rests, "compiled", lambda: False)  # other tests of this process may have compiled


def replaced():
    return hasattr(torch.autograd.backward, "__wrapped__"), hasattr(nn.Linear.forward, "__wrapped__")


@pytest.mark.slow
def test_the_unseen_part_of_a_run_is_estimated(short_rests):
    states = []
    with watch(show=False) as report:
        train(40, each_cycle=lambda: states.append(replaced()))
    assert all(first == second for first, second in states)
    watched = [first for first, _ in states]
    assert watched[:3] == [True] * 3 and watched.count(False) > 20
    assert watched[watched.index(False) :].count(True) >= 2, "it looked again, more than once"
    progress = Progress.of(report.notes)
    assert progress.completed.counts == {"environment steps": 40 * COLLECTED, "gradient steps": 40 * LEARNED}
    total_seconds = sum(report.split.values())
    assert total_seconds + progress.completed.watching_seconds == pytest.approx(progress.seconds, rel=0.02)
    assert report.split["environment"] / total_seconds == pytest.approx(0.5, abs=0.1)
    assert report.split["learning"] / total_seconds == pytest.approx(0.5, abs=0.1)
    assert 0.1 < progress.watched < 0.6 and f"watched      {progress.watched:.1%} of that time" in str(report)
    assert not any(replaced())


@pytest.mark.slow
def test_it_never_rests_where_torch_compiles():
    """torch guards compiled code by the functions that it calls, so a rest would make it recompile."""
    script = """if True:
    import sys; sys.path.insert(0, sys.argv[1])
    import torch
    from test_watch_rests import *
    rests.FIRST_SECONDS, rests.FIRST_CYCLES = 0.0, 1
    for network in (None, torch.compile(nn.Linear(4, 1), backend="eager")):
        with watch(show=False) as seen:
            train(10, network)
        print(Progress.of(seen.notes).watched < 1)
    """
    command = [sys.executable, "-c", script, HERE]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert completed.stdout.split() == ["True", "False"], completed.stderr


def test_it_never_rests_where_threads_train(short_rests):
    """An estimate for one thread doesn't hold for the others, which are not watched meanwhile."""
    with watch(show=False) as report:
        threads = [threading.Thread(target=train, args=(10,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Progress.of(report.notes).watched == 1


def until_it_rests():
    while replaced()[0]:
        train(1)


def test_a_thread_that_learns_during_a_rest_ends_it(short_rests):
    with watch(show=False) as report:
        until_it_rests()
        threads = [threading.Thread(target=train, args=(10,)) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
        assert all(replaced())
    activities = sorted(report.notes.activities.values(), key=lambda activity: activity.began)
    for activity in activities[1:]:  # the first thread woke it with its first step
        assert activity.counts["gradient steps"] == 10 * LEARNED
        assert activity.counts["environment steps"] >= 9 * COLLECTED


def test_the_end_of_a_run_that_rests_is_estimated_too(short_rests, monkeypatch):
    monkeypatch.setattr(rests, "POINT_SECONDS", 1e9)  # no look except the last
    with watch(show=False) as report:
        until_it_rests()
        train(10)
        rested = not any(replaced())
    progress = Progress.of(report.notes)
    assert rested and progress.completed.estimated_seconds > 10 * 2 * NAP * COLLECTED
    assert progress.busy_seconds == pytest.approx(progress.seconds, rel=0.02)


@pytest.mark.slow
def test_the_cycle_in_which_it_wakes_is_not_a_window(short_rests):
    """Even if its gradient steps take longer than a window: there is no environment step between them."""
    env, layer = Slow(), nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    with watch(show=False) as report:
        for _ in range(25):
            env.step(0)
            for _ in range(LEARNED):
                layer(torch.ones(8, 4)).sum().backward()
                time.sleep(2 * NAP * COLLECTED)
                optimizer.step()
            time.sleep(2 * NAP * COLLECTED * LEARNED)
    split, progress = report.split, Progress.of(report.notes)
    assert progress.completed.counts == {"environment steps": 25, "gradient steps": 25 * LEARNED}
    assert progress.watched < 0.9
    assert split["learning"] / progress.busy_seconds == pytest.approx(0.5, abs=0.1)


def test_steps_after_learning_are_watched(short_rests):
    with watch(show=False) as report:
        until_it_rests()
        for _ in range(200):
            Slow().step(0)
        assert all(replaced())
    progress = Progress.of(report.notes)
    assert progress.completed.counts["environment steps"] == progress.completed.counts["gradient steps"] * 2 + 200
    assert report.split["environment"] > 100 * NAP


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_of_one_that_rests_is_watched_closely(tmp_path):
    script = """if True:
    import os, sys
    sys.path.insert(0, sys.argv[1])
    from test_watch_rests import *
    rests.FIRST_SECONDS, rests.FIRST_CYCLES, rests.SHARE = 0.0, 1, 0.01
    train(5)
    print(*replaced(), flush=True)
    if os.fork() == 0:
        print(*replaced(), flush=True)
        os._exit(0)
    os.wait()
    """
    command = [sys.executable, "-m", "rlrepro", "doctor", "--run", "--", sys.executable, "-c", script]
    completed = subprocess.run([*command, HERE], capture_output=True, text=True, timeout=120)
    assert completed.stdout.splitlines()[:2] == ["False False", "True True"], completed.stdout + completed.stderr


def test_a_replacement_by_other_code_meanwhile_stays():
    owner = SimpleNamespace(mine=lambda: 1, yours=lambda: 2)
    patches = Patches()
    for name in ("mine", "yours"):
        patches.replace(owner, name, lambda original: lambda: 10 * original())
    assert (owner.mine(), owner.yours()) == (10, 20)
    patches.suspend()
    assert (owner.mine(), owner.yours()) == (1, 2)
    owner.yours = lambda: 3
    patches.resume()
    assert (owner.mine(), owner.yours()) == (10, 3)
    patches.undo()
    assert (owner.mine(), owner.yours()) == (1, 3)


def test_a_class_defined_during_a_rest_is_watched_after_it():
    class Base:
        def learn(self):
            return 1

    patches = Patches()
    patches.methods(Base, "learn", lambda original: lambda self: 10 * original(self))
    patches.suspend()

    class Late(Base):
        def learn(self):
            return 2

    assert (Base().learn(), Late().learn()) == (1, 2)
    patches.resume()
    assert (Base().learn(), Late().learn()) == (10, 20)
    patches.undo()
    assert (Base().learn(), Late().learn()) == (1, 2)
