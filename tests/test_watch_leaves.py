"""A watch leaves everything as it was, and works on a minimal system."""

import subprocess
import sys
from pathlib import Path
from types import FunctionType

import cloudpickle
import pytest
import torch
from torch import nn

from rlrepro.doctor import watch
from rlrepro.doctor.live.patches import Patches


def attributes():
    """Everything that a watch might leave changed."""
    import stable_baselines3.common.base_class
    import tianshou.algorithm
    import torchrl.data

    bases = (
        stable_baselines3.common.base_class.BaseAlgorithm,
        tianshou.algorithm.Algorithm,
        torchrl.data.ReplayBuffer,
        nn.Module,
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
    assert all(old is new or old == new for old, new in zip(before, after, strict=True))


def test_an_exception_passes_through_and_the_run_is_reported(capsys):
    with pytest.raises(ZeroDivisionError), watch():
        nn.Linear(3, 3)(torch.ones(7, 3))
        raise ZeroDivisionError
    assert "7 samples with gradients" in capsys.readouterr().out
    with watch(show=False), pytest.raises(RuntimeError, match="within another"), watch(show=False):
        pass
    with watch(show=False):  # the failed one has not broken it
        pass


def test_networks_work_as_before():
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
        for _ in range(20):  # above torch's limit of recompilations, which would be an error with fullgraph
            assert torch.equal(compiled(rows), expected)
        assert torch.equal(cloudpickle.loads(cloudpickle.dumps(network))(rows), expected)
        assert network(torch.randn(3)).shape == (2,)
        assert nn.Linear(0, 2)(torch.ones(4, 0)).shape == (4, 2)


def test_a_class_defined_meanwhile_is_watched_and_restored():
    def make_class(name, result, *bases, **members):
        return type(name, bases, {"learn": lambda self: result, "__module__": __name__} | members)

    Base = make_class("Base", 1)
    Early = make_class("Early", 2, Base)
    patches = Patches()
    patches.methods(Base, "learn", lambda original: lambda self: 10 * original(self))
    Late = make_class("Late", 3, Base)
    Static = make_class("Static", 0, Base, learn=staticmethod(lambda: 4))
    Own = make_class("Own", 5, Base, __module__="__main__")
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
    with watch(show=False) as report:
        assert torch.func.vmap(layer)(torch.ones(4, 200, 3)).shape == (4, 200, 2)
        assert nn.Linear(3, 2, device="meta")(rows.to("meta")).shape == (200, 2)
        nested = torch.nested.nested_tensor([rows, rows[:5]])
        assert layer(nested).size(0) == 2
        assert layer(rows.to_sparse()).shape == (200, 2)
        assert nn.LSTM(3, 2)(torch.nn.utils.rnn.pack_sequence([rows, rows[:5]]))[0].data.shape == (205, 2)
        assert torch.jit.script(nn.Sequential(nn.LSTM(3, 2)))(torch.ones(7, 5, 3))[0].shape == (7, 5, 2)
        layer(rows)
    assert report.notes.passes["with gradients"].rows == 200


@pytest.mark.slow
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
    completed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "gone")], capture_output=True, text=True)
    assert completed.returncode == 0 and "7 samples" in completed.stdout, completed.stderr


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
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert completed.stdout == "none left\n", completed.stderr


def test_a_system_without_proc(monkeypatch):
    monkeypatch.setattr("rlrepro.doctor.live.threads.PROC", Path("/nowhere"))
    with watch(show=False) as report:
        nn.Linear(3, 3)(torch.ones(7, 3))
    assert report.notes.passes["with gradients"].rows == 7 and "threads      not measured" in str(report)


@pytest.mark.slow
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
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert completed.stdout == "7\n", completed.stderr


@pytest.mark.slow
def test_a_library_that_is_imported_meanwhile_is_watched():
    script = """if True:
    from rlrepro.doctor import watch
    with watch(show=False) as seen:
        import torch
        torch.nn.Linear(3, 3)(torch.ones(7, 3))
    import sys
    print(seen.notes.passes["with gradients"].rows, torch.nn.Linear.forward.__module__, torch.__spec__.loader, sep="|")
    """
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    rows, module, loader = completed.stdout.strip().split("|")
    assert rows == "7" and module == "torch.nn.modules.linear" and "SourceFileLoader" in loader
