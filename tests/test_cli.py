"""`rlrepro reproduce` on small notebooks, run by real kernels."""

import json
import subprocess
import sys

import nbformat
import pytest
from click.testing import CliRunner
from filelock import FileLock

import rlrepro
from rlrepro.cli import main
from rlrepro.evidence import read_records
from rlrepro.lab import this_machine

PARAMETERS = """\
profile = "smoke"  # how much
device = "auto"  # where
out = "."  # folder for the records
rows = 3  # rows
"""
RECORD = (
    "from pathlib import Path\nfrom rlrepro.evidence import RecordBook\n"
    'book = RecordBook(Path(out) / "NAME.jsonl", case="case", profile=profile, device=device, seed=0)\n'
    'record = book.add("rows", rows, "rows")'
)


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")

    def write(name, *sources):
        parameters = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
        cells = [nbformat.v4.new_code_cell(cell.replace("NAME", name)) for cell in (RECORD, *sources)]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=[parameters, *cells], metadata=kernel), folder / f"{name}.ipynb")

    write("01_good", "(Path(out) / 'figures').mkdir(); (Path(out) / 'figures/a').touch()")
    write("02_logp_old_oom")
    write("04_raises", "1 / 0")
    write("03_dies", "import os; os._exit(1)")
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    (out / "04_raises.ipynb").write_text("of an earlier run")
    return out


@pytest.fixture(scope="module")
def all_four(notebooks, out):
    """A run of all notebooks, of which two fail."""
    command = [sys.executable, "-m", "rlrepro", "reproduce", "--notebooks", notebooks, "--out", out, "--device", "cpu"]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def reproduce(run_cli, notebooks):
    return lambda *arguments: run_cli("reproduce", "--notebooks", notebooks, "--out", "out", *arguments)


@pytest.mark.parametrize(
    "arguments, valid",
    [
        (["99"], "01_good, 02_logp_old_oom, 03_dies, 04_raises"),
        (["--profile", "huge"], "'smoke', 'full'"),
        (["--device", "gpu"], "'auto', 'cpu', 'cuda'"),
        (["01", "-p", "row", "5"], "device, out, profile, rows"),
        (["01", "-p", "profile", "huge"], "use the option"),
    ],
)
def test_unknown_arguments_list_the_valid_ones(notebooks, tmp_path, arguments, valid):
    options = ["--notebooks", str(notebooks), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["reproduce", *options, *arguments])
    assert result.exit_code == 2 and valid in result.output
    assert not (tmp_path / "out").exists()


def test_a_notebook_without_a_kernel_is_named_with_the_command_that_adds_one(tmp_path):
    cells = [nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "01_bare.ipynb")
    options = ["--notebooks", str(tmp_path), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["reproduce", *options])
    assert result.exit_code == 2 and f"--set-kernel python3 {tmp_path / '01_bare.ipynb'}" in result.output.replace(
        "\n", ""
    )


@pytest.mark.slow
def test_a_missing_gpu_is_reported_before_anything_runs(run_cli, notebooks):
    script = "import torch; torch.cuda.is_available = lambda: False; from rlrepro.cli import main; main()"
    command = [sys.executable, "-c", script, "reproduce", "--notebooks", str(notebooks), "--device", "cuda"]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert completed.returncode == 2 and "no GPU here" in completed.stderr and "'cpu' or 'auto'" in completed.stderr


@pytest.mark.slow
def test_successful_notebooks_are_moved_into_place(all_four, out):
    assert {path.name for path in out.glob("*.jsonl")} == {"01_good.jsonl", "02_logp_old_oom.jsonl"}
    assert (out / "01_good.ipynb").exists() and (out / "figures" / "a").exists()
    assert "01_good" in all_four.stderr and "cell/s" in all_four.stderr  # the progress
    assert "LO1" in all_four.stdout  # the verdicts of chapter 2


@pytest.mark.slow
def test_a_notebook_that_raises_is_named_and_keeps_its_earlier_run(all_four, out):
    assert all_four.returncode == 1
    assert "04_raises failed" in all_four.stderr and "cell 3: ZeroDivisionError: division by zero" in all_four.stderr
    partial = out / "partial" / "04_raises" / "04_raises.ipynb"
    assert str(partial) in all_four.stderr and "ZeroDivisionError" in partial.read_text()
    assert (out / "04_raises.ipynb").read_text() == "of an earlier run"


@pytest.mark.slow
def test_a_kernel_that_dies_is_named_with_its_cell(all_four, out):
    assert "03_dies failed" in all_four.stderr and "cell 3: DeadKernelError" in all_four.stderr
    assert not (out / "03_dies.ipynb").exists()
    assert json.loads((out / "partial" / "03_dies" / "03_dies.ipynb").read_text())["cells"]


@pytest.mark.slow
def test_a_second_run_replaces_the_first(all_four, notebooks, out, run_cli):
    completed = run_cli("reproduce", "01", "--notebooks", notebooks, "--out", out, "-p", "rows", "7", "--device", "cpu")
    assert completed.returncode == 0, completed.stderr
    assert {record.value for record in read_records(out / "01_good.jsonl")} == {7}
    assert "LO1" not in completed.stdout  # though records of chapter 2 are there


@pytest.mark.slow
def test_needs_no_installation(uninstalled, notebooks, tmp_path):
    """A kernel runs in the notebooks' folder, where a relative path from here must still work."""
    assert "PackageNotFoundError" in uninstalled("-c", "import importlib.metadata as m; m.version('rlrepro')").stderr
    assert uninstalled("-m", "rlrepro", "--version").stdout.split()[-1] == rlrepro.__version__
    assert "carry" in uninstalled("-m", "rlrepro", "--help").stdout
    completed = uninstalled("-m", "rlrepro", "reproduce", "01", "--notebooks", notebooks, "--out", tmp_path / "out")
    assert completed.returncode == 0, completed.stderr
    assert read_records(tmp_path / "out").get("case.rows").machine.versions == this_machine().versions


@pytest.mark.slow
def test_a_notebook_that_another_run_is_writing_is_refused_and_another_is_not(reproduce, tmp_path):
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".01_good.lock"):
        refused, accepted = reproduce("02", "01"), reproduce("02")
    assert refused.returncode == 1 and "another run is writing 01_good" in refused.stderr and "--out" in refused.stderr
    assert accepted.returncode == 0


@pytest.mark.slow
def test_fetch_installs_and_refuses(run_cli):
    assert "tianshou-1.0.0" in run_cli("fetch", "tianshou==1.0.0").stdout
    assert run_cli("fetch", "tianshou").returncode == 2
    completed = run_cli("fetch", "tianshou==99.0")
    assert completed.returncode == 1 and "no version 99.0" in completed.stderr
    completed = run_cli("fetch", "--python", "3.12", "torchrl==0.5.99")
    assert completed.returncode == 1 and "no version 0.5.99 for Python 3.12" in completed.stderr
    assert run_cli("fetch", "--python", "3.1").returncode == 2
    completed = run_cli("fetch", "tianshou==99.0", "tianshou==1.0.0")  # continues with the others
    assert completed.returncode == 1 and "tianshou-1.0.0" in completed.stdout
    assert "1 of 2 releases could not be installed: tianshou==99.0" in completed.stderr


def test_verdicts_without_a_run_say_how_to_make_one(run_cli):
    completed = run_cli("verdicts")
    assert completed.returncode == 1 and "rlrepro reproduce" in completed.stderr
