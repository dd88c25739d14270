"""Does a watch see the problems of a training run, and leave a good run alone?"""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from rlrepro.cases.common.tianshou_ppo import ppo, preprocess, visual_networks, visual_rollout
from rlrepro.cases.large_actions import fixed_workloads as ours
from rlrepro.cases.large_actions import pearl, torchrl_encoding
from rlrepro.cases.logp_old import workloads as logp_old
from rlrepro.cases.parallel_training import launch
from rlrepro.cases.slice_sampler import workloads as slice_sampler
from rlrepro.cases.slice_sampler.buffers import drop
from rlrepro.cases.two_batch_sizes import workloads as two_batch_sizes
from rlrepro.doctor import watch
from rlrepro.fixes import thread_budget
from rlrepro.lab import Release, ReleaseUnavailable


def codes(fn, *args, **kwargs):
    """The codes of the findings while a function runs; it may be sent to another release."""
    with watch(show=False) as report:
        fn(*args, **kwargs)
    return sorted(finding.code for finding in report.findings)


# The notebooks' own workloads, buggy and fixed.


def fixed_preprocessing(rows, size):
    from rlrepro.fixes import ChunkedPPOPolicy

    algorithm = ppo(*visual_networks("nature"), max_batchsize=size, cls=ChunkedPPOPolicy)
    preprocess(algorithm, *visual_rollout(rows))


@pytest.mark.slow
def test_a_whole_rollout_at_once():
    with Release("tianshou==1.0.0") as buggy:
        buggy.run(logp_old.prepare, 256)
        assert buggy.run(codes, logp_old.preprocess_once, 256, 64) == ["RUN002"]
        assert buggy.run(codes, fixed_preprocessing, 256, 64) == []
    logp_old.prepare(256)
    assert codes(logp_old.preprocess_once, 256, 64) == []  # of the newest release


@pytest.mark.slow
def test_one_of_two_sizes_forgotten():
    with Release("tianshou==1.0.0") as release:
        options = {"rollout": 64, "gib": 64, "network": "nature"}
        assert release.run(codes, two_batch_sizes.update, max_batchsize=16, batch_size=64, **options) == ["RUN003"]
        assert release.run(codes, two_batch_sizes.update, max_batchsize=64, batch_size=64, **options) == []


def test_collecting_with_gradients():
    assert codes(two_batch_sizes.collecting, 4, "nature") == ["RUN005"]
    assert codes(two_batch_sizes.collecting, 4, "nature", no_grad=True) == []


def sample_small_and_large(name, stored):
    for rows in stored:
        slice_sampler.sampling(rows, stored[-1], [name], repeats=10)
    drop()


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.6.0", "0.14.1"])
@pytest.mark.timing
def test_samples_that_take_longer_the_more_is_stored(release):
    with Release(f"torchrl=={release}") as torchrl:
        torchrl.run(slice_sampler.prepare)
        stored = (500_000, 5_000_000)
        assert torchrl.run(codes, sample_small_and_large, "episode", stored) == ["RUN006"]
        assert torchrl.run(codes, sample_small_and_large, "episode cached", stored) == []
        assert torchrl.run(codes, sample_small_and_large, "ours", stored) == []


@pytest.mark.slow
@pytest.mark.skipif(thread_budget(1) < 2, reason="with one core, torch has one thread")
def test_more_threads_than_cores():
    runs = [{"robot": None, "net": 512, "steps": 512, "epochs": 6, "seed": seed} for seed in range(4)]
    with Release("stable-baselines3==2.9.2") as parent:
        assert parent.run(codes, launch.pool, runs) == ["RUN001"]
        assert parent.run(codes, launch.many, runs) == []


@pytest.mark.slow
def test_one_hot_actions():
    assert codes(torchrl_encoding.measure, 2000, categorical=False, device="cpu") == ["RUN007"]
    assert codes(torchrl_encoding.measure, 2000, categorical=True, device="cpu") == []


def test_each_state_with_every_action():
    assert codes(ours.plain_update(500, 8, 16, "cpu")) == ["RUN004"]
    assert codes(ours.factored_update(500, 8, 16, "cpu")) == []


def test_pearl():
    try:
        release = Release("pearl")
    except (ValueError, ReleaseUnavailable):
        pytest.skip("Pearl is on no package index; RLREPRO_PEARL names its source")
    with release:
        assert release.run(codes, pearl.update_peak, 1000, 8, 16, "cpu") == ["RUN004", "RUN007"]
        assert release.run(codes, pearl.update_peak, 1000, 8, 16, "cpu", factored=True) == ["RUN007"]


# Training runs without problems.


def sb3(name):
    import stable_baselines3

    discrete = name in ("PPO", "A2C", "DQN")
    options = {} if name in ("PPO", "A2C") else {"learning_starts": 50, "buffer_size": 5000}
    if name == "PPO":
        options = {"n_steps": 128}
    environment = "CartPole-v1" if discrete else "Pendulum-v1"
    model = getattr(stable_baselines3, name)("MlpPolicy", environment, device="cpu", seed=0, **options)
    model.learn(300)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PPO", "A2C", "DQN", "SAC", "TD3"])
def test_an_ordinary_training_is_left_alone(name):
    assert codes(sb3, name) == []


def test_a_librarys_stages_and_sizes_are_noted():
    with watch(show=False) as report:
        sb3("DQN")
    notes = report.notes
    assert set(notes.stages) == {"collect", "train"} and notes.sizes["batch_size"] == 32
    assert notes.stages["train"].calls > 50 and notes.stages["train"].seconds > 0
    (buffer,) = notes.buffers.values()
    assert buffer.bytes["observations"] == buffer.bytes["next_observations"] == 16  # CartPole's four float32
    assert notes.passes["with gradients"].rows == 32 and notes.passes["with gradients"].stage == "train"
    assert "dqn.py" in str(notes.passes["with gradients"].place)
    assert notes.passes["with gradients"].own.path == __file__ and "largest pass 32 samples" in str(report)
    if sys.platform == "linux":
        assert notes.stages["train"].peak_bytes >= notes.stages["train"].before_bytes > 2**20


def hungry():
    """A class with a module-level name: the watch would leave a class inside a function alone."""
    from stable_baselines3 import PPO

    def train(self):
        self.held = torch.ones(2**26)  # 256 MiB
        del self.held
        super(Hungry, self).train()

    Hungry = type("Hungry", (PPO,), {"train": train, "__module__": __name__})
    return Hungry


def test_memory_of_a_stage_is_its_own():
    if sys.platform != "linux":
        pytest.skip("only Linux reports the peak of a process")
    with watch(show=False) as report:
        hungry()("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, device="cpu").learn(64)
    train, collect = (report.notes.stages[name] for name in ("train", "collect"))
    assert train.peak_bytes - train.before_bytes > 0.95 * 2**28  # some earlier memory is freed meanwhile
    assert collect.peak_bytes - collect.before_bytes < 2**27


@pytest.mark.slow
def test_trainings_in_two_threads():
    with watch(show=False) as report, ThreadPoolExecutor(2) as threads:
        list(threads.map(sb3, ["PPO", "PPO"]))
    assert report.findings == [] and report.notes.stages["train"].calls == 6  # each has 3 rollouts of 128
