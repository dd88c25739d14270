"""The split of a training run's time: known seconds come back under their names, whichever library spends them."""

import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from rlrepro.doctor import watch
from rlrepro.doctor.live.activity import total
from rlrepro.doctor.live.progress import Progress
from rlrepro.doctor.live.timing import NESTED

NAP = 0.02
ROUNDS = 10


class Slow(gymnasium.Env):
    """An environment step takes one nap; the network takes two."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)
    napped = 0.0  # seconds in this instance, since a busy machine makes naps longer

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        start = time.perf_counter()
        time.sleep(NAP)
        self.napped += time.perf_counter() - start
        return np.zeros(4, np.float32), 1.0, False, False, {}


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, rows):
        time.sleep(2 * NAP)
        return self.layers(rows)


def loop(*, sample=lambda: None, no_grad=True):
    """A handwritten training loop with one environment step per gradient step."""
    env = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.RecordEpisodeStatistics(Slow()), 1000)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters())
    rows, _ = env.reset()
    for _ in range(ROUNDS):
        with torch.set_grad_enabled(not no_grad):
            action = policy(torch.as_tensor(rows)[None]).argmax().item()
        rows, *_ = env.step(action)
        time.sleep(NAP / 2)  # neither environment nor network
        sample()
        loss = policy(torch.ones(8, 4)).sum()
        time.sleep(NAP)  # a loss that no module computes
        loss.backward()
        time.sleep(NAP)  # clipping
        optimizer.step()
        optimizer.zero_grad()


def expect(split, **naps):
    """Expect this many naps per round; a nap is never shorter, and a busy machine makes it longer."""
    for kind, seconds in split.items():
        assert naps.get(kind, 0) * NAP * ROUNDS * 0.95 <= seconds, (kind, split)
    total_seconds = sum(split.values())
    for kind, seconds in split.items():
        assert seconds / total_seconds == pytest.approx(naps.get(kind, 0) / sum(naps.values()), abs=0.08), (kind, split)


@pytest.mark.timing
def test_a_loop_by_hand():
    with watch(show=False) as report:
        loop()
    expect(report.split, environment=1, inference=2, learning=4, rest=0.5)
    assert Progress.of(report.notes).completed.counts == {"environment steps": ROUNDS, "gradient steps": ROUNDS}
    assert "learning 5" in str(report) and "watching itself took at least" in str(report)


@pytest.mark.timing
def test_acting_with_gradients_is_inference_too():
    with watch(show=False) as report:
        loop(no_grad=False)
    expect(report.split, environment=1, inference=2, learning=4, rest=0.5)


@pytest.mark.timing
def test_samples():
    from torchrl.data import LazyTensorStorage, ReplayBuffer

    class Sleepy(LazyTensorStorage):
        def get(self, index):
            time.sleep(NAP)
            return super().get(index)

    buffer = ReplayBuffer(storage=Sleepy(100), batch_size=8)
    buffer.extend(torch.ones(50, 4))
    with watch(show=False) as report:
        loop(sample=buffer.sample)
    expect(report.split, environment=1, inference=2, learning=4, sampling=1, rest=0.5)
    assert Progress.of(report.notes).completed.counts["buffer samples"] == ROUNDS


def test_stable_baselines3():
    from stable_baselines3 import DQN

    steps, env = 4 * ROUNDS, Slow()
    with watch(show=False) as report:
        DQN("MlpPolicy", env, learning_starts=0, train_freq=4, batch_size=4, device="cpu").learn(steps)
    progress = Progress.of(report.notes).completed
    assert progress.counts["environment steps"] == steps and progress.counts["gradient steps"] == ROUNDS
    split = report.split
    assert steps * NAP <= env.napped <= split["environment"] <= 1.2 * env.napped and min(split.values()) > 0
    assert split["learning"] <= report.notes.stages["train"].seconds


def test_torchrl_and_tianshou_environments_are_counted_by_copies():
    from tianshou.env import DummyVectorEnv
    from torchrl.envs import GymEnv, SerialEnv

    with watch(show=False) as report:
        vector = DummyVectorEnv([Slow] * 3)
        vector.reset()
        vector.step(np.zeros(3, int))
    assert Progress.of(report.notes).completed.counts == {"environment steps": 3}
    with watch(show=False) as report:
        SerialEnv(2, lambda: GymEnv("CartPole-v1")).rollout(5)
    assert Progress.of(report.notes).completed.counts == {"environment steps": 10}


@pytest.mark.slow
def test_threads_have_their_own_clocks():
    with watch(show=False) as report:
        threads = [threading.Thread(target=loop) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert report.split["environment"] == pytest.approx(2 * ROUNDS * NAP, rel=0.2)
    assert Progress.of(report.notes).processes == 2


@pytest.mark.timing
def test_an_exception_ends_its_activity():
    class Broken(nn.Module):
        def forward(self, rows):
            raise ValueError("broken")

    with watch(show=False) as report:
        for _ in range(3):
            with pytest.raises(ValueError, match="broken"):
                Broken()(torch.ones(3))
        loop()
    expect(report.split, environment=1, inference=2, learning=4, rest=0.5)


def test_an_environment_of_the_script_itself(tmp_path):
    """No module exports it, so it is pickled by value."""
    script = """if True:
    import cloudpickle, gymnasium, numpy as np
    from rlrepro.doctor import watch

    class Own(gymnasium.Env):
        def step(self, action):
            return np.zeros(4), 0.0, False, False, {}

    with watch(show=False) as seen:
        for _ in range(7):
            Own().step(0)
        pickled = cloudpickle.dumps(Own)
    assert b"rlrepro" not in pickled, pickled
    [each] = seen.notes.activities.values()
    print(dict(each.counts))
    """
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert completed.stdout == "{'environment steps': 7}\n", completed.stderr


@pytest.mark.timing
def test_its_own_cost_is_left_out_and_reported():
    layer, rows = nn.Identity(), torch.ones(1)

    def time_calls():
        start = time.thread_time()
        for _ in range(2000):
            layer(rows)
        return time.thread_time() - start

    time_calls()
    alone = [time_calls() for _ in range(20)]
    with watch(show=False) as report:
        watched = min(time_calls() for _ in range(20))
    alone = min(
        *alone, *(time_calls() for _ in range(20))
    )  # before and after, since a machine may be slow for a moment
    activity = total(report.notes.activities.values())
    cost_ratio = (activity.watching_seconds / 20) / (watched - alone)
    assert 0.1 < cost_ratio < 1.5  # it can't time its own first and last steps
    assert sum(activity.seconds) + activity.watching_seconds == pytest.approx(activity.ended - activity.began, rel=1e-6)


def test_a_class_that_is_only_called_within_others_is_left_alone():
    """Layers, and the environments inside wrappers: their probes would cost the most, and add no information."""
    layers = nn.Sequential(*[nn.Identity() for _ in range(NESTED)])
    with watch(show=False):
        layers(torch.ones(1))
        assert "__call__" in vars(nn.Identity) and "__call__" not in vars(nn.Sequential)
        env = gymnasium.make("CartPole-v1")
        env.reset()
        for _ in range(NESTED + 1):
            if env.step(env.action_space.sample())[2]:
                env.reset()
        assert hasattr(type(env).step, "__wrapped__") and not hasattr(type(env.unwrapped).step, "__wrapped__")
    assert "__call__" not in vars(nn.Identity)


def test_a_compiled_network_and_an_optimizer_with_a_closure():
    network = torch.compile(nn.Linear(4, 1), backend="eager", fullgraph=True)
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = network(torch.ones(3, 4)).square().sum()
        loss.backward()
        return loss

    with watch(show=False) as report:
        optimizer.step(closure)
    assert Progress.of(report.notes).completed.counts == {"gradient steps": 1}
    before = len(torch.optim.Optimizer.__init__.__globals__["_global_optimizer_post_hooks"])
    assert before == 0
