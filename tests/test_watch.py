"""Does a watch see what is wrong with a running training, leave a good one alone, and everything as it was?"""

import gc
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import FunctionType

import cloudpickle
import numpy as np
import pytest
import torch
from torch import nn

from rlrepro.cases.common.tianshou_ppo import ppo, preprocess, visual_networks, visual_rollout
from rlrepro.cases.large_actions import fixed_workloads as ours
from rlrepro.cases.large_actions import pearl, torchrl_encoding
from rlrepro.cases.logp_old import workloads as logp_old
from rlrepro.cases.parallel_training import launch
from rlrepro.cases.slice_sampler import workloads as slice_sampler
from rlrepro.cases.slice_sampler.buffers import drop
from rlrepro.cases.two_batch_sizes import workloads as two_batch_sizes
from rlrepro.doctor import watch
from rlrepro.doctor.live.buffers import Origins, Reader, _describe, probe_sample
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.notes import Buffer, Notes, Pass, Place
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.thread_stats import Crowd
from rlrepro.doctor.rules.running import diagnose, trend
from rlrepro.fixes import thread_budget
from rlrepro.lab import Release, ReleaseUnavailable

HERE = Place(__file__, 1, "test")


def codes(fn, *args, **kwargs):
    """What is found while a function runs; it may be sent to another release."""
    with watch(show=False) as seen:
        fn(*args, **kwargs)
    return sorted(finding.code for finding in seen.findings)


# The notebooks' own workloads, buggy and fixed.


def cured_preprocessing(rows, size):
    from rlrepro.fixes import ChunkedPPOPolicy

    algorithm = ppo(*visual_networks("nature"), max_batchsize=size, cls=ChunkedPPOPolicy)
    preprocess(algorithm, *visual_rollout(rows))


@pytest.mark.slow
def test_a_whole_rollout_at_once():
    with Release("tianshou==1.0.0") as buggy:
        buggy.run(logp_old.prepare, 256)
        assert buggy.run(codes, logp_old.preprocess_once, 256, 64) == ["RUN002"]
        assert buggy.run(codes, cured_preprocessing, 256, 64) == []
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
        slice_sampler.sampling(rows, stored[-1], [name], repeats=3)
    drop()


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.6.0", "0.14.1"])
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


def test_what_is_known_of_a_library_is_noted():
    with watch(show=False) as seen:
        sb3("DQN")
    notes = seen.notes
    assert set(notes.stages) == {"collect", "train"} and notes.sizes["batch_size"] == 32
    assert notes.stages["train"].calls > 50 and notes.stages["train"].seconds > 0
    (buffer,) = notes.buffers.values()
    assert buffer.bytes["observations"] == buffer.bytes["next_observations"] == 16  # CartPole's four float32
    assert notes.passes["with gradients"].rows == 32 and notes.passes["with gradients"].stage == "train"
    assert "dqn.py" in str(notes.passes["with gradients"].place)
    assert notes.passes["with gradients"].own.path == __file__ and "largest pass 32 samples" in str(seen)
    if sys.platform == "linux":
        assert notes.stages["train"].peak_bytes >= notes.stages["train"].before_bytes > 2**20


def hungry():
    """A class as from a module of its own: one of a function would be left alone."""
    from stable_baselines3 import PPO

    def train(self):
        self.held = torch.ones(2**26)  # 256 MiB
        del self.held
        super(Hungry, self).train()

    Hungry = type("Hungry", (PPO,), {"train": train, "__module__": __name__})
    return Hungry


def test_memory_of_a_stage_is_its_own():
    if sys.platform != "linux":
        pytest.skip("the peak of a process is Linux's to tell")
    with watch(show=False) as seen:
        hungry()("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, device="cpu").learn(64)
    train, collect = (seen.notes.stages[name] for name in ("train", "collect"))
    assert train.peak_bytes - train.before_bytes > 0.95 * 2**28  # some of what was there before is freed meanwhile
    assert collect.peak_bytes - collect.before_bytes < 2**27


def test_trainings_in_two_threads():
    with watch(show=False) as seen, ThreadPoolExecutor(2) as threads:
        list(threads.map(sb3, ["PPO", "PPO"]))
    assert seen.findings == [] and seen.notes.stages["train"].calls == 6  # each has 3 rollouts of 128


# The watch itself.


def attributes():
    """Everything that a watch might leave changed."""
    import stable_baselines3.common.base_class
    import tianshou.algorithm
    import torchrl.data

    bases = (
        stable_baselines3.common.base_class.BaseAlgorithm,
        tianshou.algorithm.Algorithm,
        torchrl.data.ReplayBuffer,
        nn.Linear,
        nn.Conv2d,
    )
    classes = [cls for base in bases for cls in (base, *base.__subclasses__())]
    return [(cls, name, value) for cls in classes for name, value in vars(cls).items()] + list(sys.meta_path)


def test_nothing_stays_patched():
    before, forward = attributes(), vars(nn.Linear)["forward"]
    with pytest.raises(KeyError), watch(show=False):
        assert vars(nn.Linear)["forward"] is not forward
        assert attributes() != before
        raise KeyError
    after = attributes()
    assert len(after) == len(before)
    assert all(mine is yours or mine == yours for mine, yours in zip(before, after, strict=True))


def test_what_raises_passes_through_and_is_reported(capsys):
    with pytest.raises(ZeroDivisionError), watch():
        nn.Linear(3, 3)(torch.ones(7, 3))
        raise ZeroDivisionError
    assert "7 samples with gradients" in capsys.readouterr().out
    with watch(show=False), pytest.raises(RuntimeError, match="within another"), watch(show=False):
        pass
    with watch(show=False):  # the one that failed has not spoiled it
        pass


def test_networks_are_what_they_were():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, rows):
            return self.layer(rows)

    network, rows = Network(), torch.randn(5, 3)
    expected = network(rows)
    with watch(show=False):
        assert torch.equal(network(rows), expected)
        assert torch.allclose(torch.jit.trace(network, rows)(rows), expected)
        assert torch.allclose(torch.jit.script(network)(rows), expected)
        compiled = torch.compile(network, backend="eager", fullgraph=True)
        for _ in range(20):  # more than torch compiles a function anew for, which would be an error with fullgraph
            assert torch.equal(compiled(rows), expected)
        assert torch.equal(cloudpickle.loads(cloudpickle.dumps(network))(rows), expected)
        assert network(torch.randn(3)).shape == (2,)
        assert nn.Linear(0, 2)(torch.ones(4, 0)).shape == (4, 2)


def test_a_class_made_meanwhile_is_watched_and_put_back():
    def made(name, result, *bases, **members):
        return type(name, bases, {"learn": lambda self: result, "__module__": __name__} | members)

    Base = made("Base", 1)
    Early = made("Early", 2, Base)
    patches = Patches()
    patches.methods(Base, "learn", lambda original: lambda self: 10 * original(self))
    Late = made("Late", 3, Base)
    Static = made("Static", 0, Base, learn=staticmethod(lambda: 4))
    Own = made("Own", 5, Base, __module__="__main__")
    assert [cls().learn() for cls in (Base, Early, Late, Static, Own)] == [10, 20, 30, 4, 50]
    patches.undo()
    assert [cls().learn() for cls in (Base, Early, Late, Static, Own)] == [1, 2, 3, 4, 5]
    assert "__init_subclass__" not in vars(Base) and isinstance(vars(Late)["learn"], FunctionType)


def test_a_model_that_is_saved_needs_no_rlrepro_to_be_loaded():
    from stable_baselines3 import PPO

    class Mine(PPO):
        def train(self):
            super().train()

    with watch(show=False):
        pickled = cloudpickle.dumps(Mine)
    assert b"rlrepro." not in pickled


def test_odd_tensors_pass_as_without_a_watch():
    layer, rows = nn.Linear(3, 2), torch.randn(200, 3)
    with watch(show=False) as seen:
        assert torch.func.vmap(layer)(torch.ones(4, 200, 3)).shape == (4, 200, 2)
        assert nn.Linear(3, 2, device="meta")(rows.to("meta")).shape == (200, 2)
        nested = torch.nested.nested_tensor([rows, rows[:5]])
        assert layer(nested).size(0) == 2
        assert layer(rows.to_sparse()).shape == (200, 2)
        assert nn.LSTM(3, 2)(torch.nn.utils.rnn.pack_sequence([rows, rows[:5]]))[0].data.shape == (205, 2)
        assert torch.jit.script(nn.Sequential(nn.LSTM(3, 2)))(torch.ones(7, 5, 3))[0].shape == (7, 5, 2)
        layer(rows)
    assert seen.notes.passes["with gradients"].rows == 200


def test_a_working_folder_may_vanish(tmp_path):
    script = """if True:
    import os, sys, torch
    from rlrepro.doctor import watch
    with watch():
        os.chdir(sys.argv[1])
        os.rmdir(sys.argv[1])
        torch.nn.Linear(3, 3)(torch.ones(7, 3))
    """
    (tmp_path / "gone").mkdir()
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "gone")], capture_output=True, text=True)
    assert done.returncode == 0 and "7 samples" in done.stdout, done.stderr


def test_waiting_for_all_children_ends():
    script = """if True:
    import os
    from rlrepro.doctor import watch
    with watch(show=False):
        if not os.fork():
            os._exit(0)
        try:
            while True:
                os.wait()
        except ChildProcessError:
            print("none left")
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "none left\n", done.stderr


def test_a_system_without_proc(monkeypatch):
    monkeypatch.setattr("rlrepro.doctor.live.threads.PROC", Path("/nowhere"))
    with watch(show=False) as seen:
        nn.Linear(3, 3)(torch.ones(7, 3))
    assert seen.notes.passes["with gradients"].rows == 7 and "threads      not measured" in str(seen)


def test_looking_for_torch_before_importing_it():
    script = """if True:
    import importlib.util, pkgutil
    from rlrepro.doctor import watch
    with watch(show=False) as seen:
        importlib.util.find_spec("torch")
        assert pkgutil.get_data("torch", "version.py")
        import torch
        torch.nn.Linear(3, 3)(torch.ones(7, 3))
    print(seen.notes.passes["with gradients"].rows)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "7\n", done.stderr


def test_a_library_that_is_imported_meanwhile_is_watched():
    script = """if True:
    from rlrepro.doctor import watch
    with watch(show=False) as seen:
        import torch
        torch.nn.Linear(3, 3)(torch.ones(7, 3))
    import sys
    print(seen.notes.passes["with gradients"].rows, torch.nn.Linear.forward.__module__, torch.__spec__.loader, sep="|")
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    rows, module, loader = done.stdout.strip().split("|")
    assert rows == "7" and module == "torch.nn.modules.linear" and "SourceFileLoader" in loader


@pytest.mark.xfail(reason="4 to 20% more CPU time in seven runs on an idle machine; 5% is the aim", strict=False)
@pytest.mark.timing
def test_it_costs_little():
    from stable_baselines3 import DQN

    def train():
        DQN("MlpPolicy", "CartPole-v1", learning_starts=50, buffer_size=5000, device="cpu", seed=0).learn(2000)

    def seconds(context):
        with context:
            gc.collect()
            start = time.process_time()
            train()
            return time.process_time() - start

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that spin would be counted as well
    try:
        train()
        pairs = [(seconds(watch(show=False)), seconds(nullcontext())) for _ in range(5)]
    finally:
        torch.set_num_threads(threads)
    watched, alone = map(min, zip(*pairs, strict=True))  # what disturbs a run only makes it longer
    assert watched / alone < 1.15  # 1.05 is what is aimed at, and what a quiet machine gives


PAIRS = torch.cat([torch.randn(4, 1, 3).expand(4, 100, 3), torch.randn(1, 100, 2).expand(4, 100, 2)], dim=2)


@pytest.mark.parametrize(
    "rows, found",
    [
        (PAIRS, ["RUN004"]),
        (PAIRS.reshape(400, 5), ["RUN004"]),
        (PAIRS.reshape(400, 5)[:350], []),  # no whole blocks
        (PAIRS.reshape(400, 5)[torch.randperm(400)], []),
        (torch.randn(400, 5), []),
        (torch.nn.functional.one_hot(torch.arange(400) // 100).float(), []),  # sorted, and nothing but the state
        (torch.cat([torch.arange(400).ge(70)[:, None].float(), torch.randn(400, 3)], dim=1), []),  # a rare event
        (torch.zeros(400, 5), []),
    ],
)
def test_pairs_of_states_and_actions(rows, found):
    assert codes(nn.Linear(rows.shape[-1], 2), rows) == found


def test_tokens_are_no_rows():
    layer = nn.Linear(8, 8)
    with watch(show=False) as seen:
        layer(torch.randn(64, 8))
        with torch.no_grad():
            layer(torch.randn(64, 196, 8))
    assert seen.notes.passes["without gradients"].rows == 64 and not seen.findings


def test_a_place_is_told_from_its_package():
    assert str(Place(nn.__file__.replace("__init__", "modules/linear"), 3, "f")) == "torch/nn/modules/linear.py:3 (f)"
    assert str(Place("/no/train.py", 4, "g")) == "train.py:4 (g)"


@pytest.mark.parametrize(
    "key, values, why",
    [
        ("action", np.eye(300, dtype=np.int64)[:8], "one-hot"),
        ("next.action_value", np.random.default_rng(0).random((8, 300)), "computed by a network"),
        ("available_actions", np.arange(300.0)[None].repeat(8, 0), "the same in each transition"),
        ("action", np.arange(8)[:, None], None),
        ("observation", np.zeros((8, 84, 84)), None),
        ("action", np.random.default_rng(0).random((8, 300)), None),
    ],
)
def test_what_an_entry_of_a_transition_is(key, values, why):
    buffer = Buffer(HERE, HERE)
    _describe(buffer, key, values)
    assert buffer.alike.get(key) == why and buffer.bytes == {key: values[0].nbytes}
    notes = Notes()
    notes.buffers["Buffer"] = buffer
    assert findings(notes) == (["RUN007"] if why else [])


class Growing:
    """A buffer as torchrl's is to a probe."""

    def __init__(self, batch=None):
        self.rows, self._batch_size = 0, batch

    def sample(self, batch_size=None):
        return self.rows


@pytest.mark.parametrize("asked, noted", [(16, [64, 128]), (None, []), (128, []), (0, [])])
def test_only_samples_of_a_part_are_timed(asked, noted):
    notes, patches, buffer = Notes(), Patches(), Growing()
    reader = Reader(lambda it: it.rows, lambda it, rows: ())
    patches.replace(Growing, "sample", probe_sample(notes, reader, Clocks(notes, [], [0]), Origins()))
    for buffer.rows in (64, 128):
        buffer.sample(asked)
    patches.undo()
    assert [rows for each in notes.buffers.values() for times in each.seconds.values() for rows in times] == noted


# What notes say.


def findings(notes, crowd=None):
    return [finding.code for finding in diagnose(notes, crowd or Crowd(cores=2), "train.py", Path(__file__).parent)]


def passes(without=None, with_gradients=None, stage=None, **options):
    notes = Notes(**options)
    for kind, rows in (("without gradients", without), ("with gradients", with_gradients)):
        if rows:
            notes.passes[kind] = Pass(rows, HERE, HERE, stage)
    return notes


@pytest.mark.parametrize(
    "notes, expected",
    [
        (passes(1000), []),  # nothing to compare with
        (passes(1000, 64), ["RUN002"]),
        (passes(500, 64), []),  # outside of a library's stage: a test, or many environments
        (passes(129, 64, stage="train"), ["RUN002"]),
        (passes(128, 64), []),
        (passes(500, 64, sizes={"max_batchsize": 256}), []),  # the last chunk may be merged
        (passes(513, 64, stage="preprocess", sizes={"max_batchsize": 256}), ["RUN002"]),
        (passes(600, 64, stage="train", sizes={"n_steps": 2048}), ["RUN002"]),
        (passes(256, 512, sizes={"max_batchsize": 256, "batch_size": 512}), ["RUN003"]),
        (passes(256, 300, sizes={"max_batchsize": 256, "batch_size": 512}), []),  # no pass was so large
        (passes(256, 300, sizes={"max_batchsize": 256, "batch_size": 256}), []),
    ],
)
def test_sizes(notes, expected):
    assert findings(notes) == expected


@pytest.mark.parametrize(
    "seconds, grows",
    [
        ({1000: [1.0], 2000: [1.1], 4000: [1.2]}, False),
        ({1000: [1.0], 10_000: [9.0], 100_000: [90.0]}, True),
        ({1000: [1.0], 1500: [2.0]}, False),  # too near each other
        ({1000: [1.0]}, False),
        ({}, False),
        ({0: [1.0], 10: [1.0], 1000: [1.0]}, False),
        ({1000: [1.0, 1.0, 500.0], 100_000: [90.0, 90.0]}, True),
        ({1000: [1.0, 1.1], 100_000: [80.0, 1.2]}, False),  # noise
        ({1000: [5.0], 10_000: [1.0], 100_000: [1.0]}, False),  # the first is slow to start
    ],
)
def test_trend(seconds, grows):
    assert (trend(seconds) is not None) is grows


def crowd(**options):
    seen = {"looks": 10, "crowded_looks": 8, "runnable": 6.0, "busy_processes": 4.0}
    seen |= {"seconds": 1.0, "oversubscribed_seconds": 0.5}
    return Crowd(cores=2, **seen | options)


@pytest.mark.parametrize(
    "seen, expected",
    [
        (crowd(), ["RUN001"]),
        (crowd(oversubscribed_seconds=0.0), []),  # more processes than cores, each with one thread
        (crowd(seconds=10.0), []),  # for a moment
        (Crowd(cores=2), []),
    ],
)
def test_crowds(seen, expected):
    assert findings(Notes(), seen) == expected


def test_notes_come_back_as_they_were_written(tmp_path):
    notes = passes(100, 10, sizes={"batch_size": 10})
    notes.gradients_while_collecting = HERE
    notes.buffers["Buffer"] = Buffer(HERE, HERE, bytes={"obs": 4}, alike={"obs": "one-hot"})
    notes.buffers["Buffer"].sampled(32, 1001, 0.5)
    notes.buffers["Buffer"].sampled(32, 1002, 0.25)  # from about as many
    notes.buffers["Buffer"].sampled(64, 1003, 1.0)
    notes.keep_in(tmp_path)
    notes.write()
    (path,) = tmp_path.glob("*.json")
    back = Notes.read(path)
    assert back.passes == notes.passes and back.sizes == notes.sizes and back.gradients_while_collecting == HERE
    assert back.buffers["Buffer"].seconds == {32: {1001: [0.5, 0.25]}, 64: {1003: [1.0]}} and back.buffers[
        "Buffer"
    ].bytes == {"obs": 4}
    total = Notes()
    total.add(back)
    total.add(Notes.read(path))
    assert total.buffers["Buffer"].seconds[32] == {1001: [0.5, 0.25, 0.5, 0.25]} and total.passes == notes.passes
