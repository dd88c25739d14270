"""`rlrepro reproduce` under external faults: a full disk, a kernel that does not start, a kill."""

import json
import re
import resource
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from jupyter_client.kernelspec import NoSuchKernel

from rlrepro.course.runner import find_notebooks, run_notebooks

PARAMETERS = """\
profile = "smoke"  # how much
device = "auto"  # where
out = "."  # folder for the records
"""


def write(folder, name, code):
    parameters = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [parameters, nbformat.v4.new_code_cell(code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / f"{name}.ipynb")


@pytest.fixture
def notebooks(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("01_good", "02_good"):
        write(folder, name, "print(1)")
    return folder


@pytest.fixture
def reproduce(run_cli, notebooks):
    return lambda *notebook_prefixes, **options: run_cli(
        "reproduce", *notebook_prefixes, "--notebooks", notebooks, "--out", "out", **options
    )


@pytest.mark.slow
def test_a_disk_that_is_full_is_one_notebooks_failure(reproduce, notebooks, tmp_path):
    """A limit on the size of a file makes the system refuse the write, as a full disk does."""
    write(notebooks, "00_large", "print('x' * 100_000)")
    limit = resource.RLIMIT_FSIZE, (50_000, 50_000)
    result = reproduce("00", "01", preexec_fn=lambda: resource.setrlimit(*limit))
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "00_large failed at the end, when it was saved: a file could not be read or written: [Errno" in result.stderr
    assert "01_good ran" in result.stdout and (tmp_path / "out" / "01_good.ipynb").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", [["/nowhere/python"], ["false"]])
def test_a_kernel_that_does_not_start_is_one_notebooks_failure(reproduce, monkeypatch, tmp_path, command):
    spec = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": command, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    result = reproduce("01", "02")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert len(re.findall(r"^0\d_\w+ failed at the start of its kernel: ", result.stderr, re.MULTILINE)) == 2


def test_a_missing_kernel_is_one_notebooks_failure(notebooks, tmp_path, monkeypatch):
    def no_kernel(*args, **options):
        raise NoSuchKernel("python3")

    monkeypatch.setattr("papermill.execute_notebook", no_kernel)
    runs = list(run_notebooks(find_notebooks(["01", "02"], notebooks), tmp_path / "out", {}))
    assert ["No such kernel named python3" in run.error for run in runs] == [True, True]


STARTS_MORE = """
import os, subprocess
from pathlib import Path
from rlrepro.lab import Release

def spin(path):
    path.write_text(f"{os.getpid()} {os.getppid()} {subprocess.Popen(['sleep', '60']).pid}")
    while True:
        pass

Release("tianshou==1.0.0").run(spin, Path(out) / "pids")
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process(notebooks, tmp_path, ending):
    write(notebooks, "01_good", STARTS_MORE)
    command = [sys.executable, "-m", "rlrepro", "reproduce", "01", "--notebooks", notebooks, "--out", tmp_path / "out"]
    run = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = tmp_path / "out" / "partial" / "01_good" / "pids"
    while not pids.exists() or len(pids.read_text().split()) < 3:
        assert run.poll() is None
        time.sleep(0.05)
    processes = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    run.send_signal(ending)
    _, stderr = run.communicate(timeout=30)
    _, alive = psutil.wait_procs(processes, timeout=2)  # of other parents, zombies count as ended
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert "Traceback" not in stderr and ("Aborted" in stderr or ending == signal.SIGKILL)
    assert run.returncode == (-ending if ending == signal.SIGKILL else 1)
