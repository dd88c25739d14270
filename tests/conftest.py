"""What tests share: a GPU mark that gives the reason when a test is skipped, and the committed reference records."""

import gc
import os
import signal
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "results/amd-epyc-2-cores-24-gib"  # the tests of the base run without it
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # compiling tianshou's GAE takes longer than running it here
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background; child processes inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _sees_gpu() -> bool:
    try:
        import torch
    except ModuleNotFoundError:  # the tests of the base run without it
        return False
    return torch.cuda.is_available()


def pytest_addoption(parser):
    parser.addoption("--profile", default="tiny", choices=("tiny", "smoke"), help="How much the notebooks measure.")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        if "releases" in item.fixturenames:  # they start many processes
            item.add_marker(pytest.mark.slow)
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not _sees_gpu():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="torch sees no GPU here"))


def pytest_collection():
    gc.disable()  # collections would take up to a fifth of the time of imports


def pytest_collection_finish():
    gc.freeze()  # many tests call gc.collect, which need not look through all that was imported
    gc.enable()


@pytest.fixture(scope="session")
def records():
    """The committed records of a machine."""
    from rlrepro.evidence import read_records

    return read_records(REFERENCE)


@pytest.fixture
def one_thread(monkeypatch):
    """When training runs are tested side by side, their threads would only wait for each other."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def no_processes(monkeypatch):
    """Keep an EnsemblePPO from choosing processes, as it might for any environment on a busy machine."""
    monkeypatch.setattr("rlrepro.fixes.ensemble_ppo.envs.MESSAGE_SECONDS", float("inf"))


@pytest.fixture
def run_cli(tmp_path):
    """Run the command line in a separate process, in an empty folder."""
    import subprocess
    import sys

    def call(*arguments, **options):
        command = [sys.executable, "-m", "rlrepro", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, **options)

    return call


@pytest.fixture(scope="session")
def uninstalled(tmp_path_factory):
    """Call a Python without rlrepro installed, in the checkout. All other installed packages are in a folder, and
    PYTHONPATH lists that folder and the checkout, as relative paths."""
    import subprocess
    import sys
    import sysconfig

    folder = tmp_path_factory.mktemp("uninstalled")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (folder / "site").mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "rlrepro" not in path.name:
            (folder / "site" / path.name).symlink_to(path)
    environment = os.environ | {"PYTHONPATH": f"{os.path.relpath(folder / 'site', ROOT)}:."}

    def call(*arguments):
        command = [folder / "venv" / "bin" / "python", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)

    return call


@cache
def release(name: str):
    """A release; all tests share its process."""
    from rlrepro.lab import Release

    return Release(name)


@contextmanager
def open_releases(*versions):
    """tianshou's releases by version; all tests share their processes."""
    yield {version: release(f"tianshou=={version}") for version in versions}
