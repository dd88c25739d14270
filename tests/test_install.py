"""What `pip install rlrepro` installs: a wheel that is built here, in separate environments."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from rlrepro.evidence.compatibility.environments import call, make
from rlrepro.extras import EXTRA_OF_COMMAND
from rlrepro.fixes import NAMES as FIXES

from .conftest import ROOT

pytestmark = pytest.mark.slow

PYTHONS = ("3.10", "3.13")  # the oldest and the newest of the base; skipped where they are missing
BASE = {"rlrepro", "click", "lazy-loader", "packaging"}
LARGEST = 15 * 10**6  # bytes of the base, installed
# Tests that need nothing but the base and pytest...
BASE_TESTS = [f"tests/test_doctor{part}.py" for part in ("", "_files", "_fix", "_fix_files", "_releases", "_report")]
NEED_MORE = [  # ...except these, which need what the course installs or the records of a checkout
    "tests/test_doctor_report.py::test_measured_costs_agree_with_the_reference_records",
    "tests/test_doctor_files.py::test_installed_libraries_are_read_without_a_crash",
]
TROUBLE = "from tianshou.policy import PPOPolicy\n\npolicy = PPOPolicy(actor=actor, critic=critic)\n"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it names this checkout


def run(*command, **options):
    options = {"capture_output": True, "text": True, "env": ENVIRONMENT} | options
    return subprocess.run(list(map(str, command)), **options)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Wheel and sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    assert not call("uv", "build", "--quiet", "--out-dir", folder, ROOT), "uv is needed: make installs it"
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def base(wheel, tmp_path_factory):
    """The folder of an environment that had nothing but pip, after `pip install WHEEL`."""
    folder = tmp_path_factory.mktemp("base") / "env"
    venv.create(folder, with_pip=True)
    before = size(folder)
    result = run(folder / "bin" / "python", "-m", "pip", "install", "--no-cache-dir", wheel)
    assert result.returncode == 0, result.stderr
    return folder, size(folder) - before


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def installed(python: Path) -> set[str]:
    listing = run(python, "-m", "pip", "list", "--format=freeze").stdout
    return {line.split("==")[0].replace("_", "-") for line in listing.splitlines()} - {"pip", "setuptools"}


def test_the_base_is_small(base):
    folder, added_bytes = base
    assert installed(folder / "bin" / "python") - {"tomli"} == BASE
    assert added_bytes < LARGEST


def test_the_linter_works_in_the_base(base, tmp_path):
    folder, _ = base
    (tmp_path / "train.py").write_text(TROUBLE)
    (tmp_path / "requirements.txt").write_text("tianshou==1.0.0\n")
    result = run(folder / "bin" / "rlrepro", "doctor", ".", cwd=tmp_path)
    assert result.returncode == 1 and "train.py:3:10: TS001" in result.stdout
    result = run(folder / "bin" / "rlrepro", "--version")
    assert result.returncode == 0 and result.stdout.startswith("rlrepro, version ")


ARGUMENTS = {  # with these, a command reaches its imports
    "carry": ["folder", "--python", "3.11"],
    "doctor": ["--run", "--", "python", "-c", "1"],
    "fit": ["module:function", "--gib", "1", "--rollout", "2"],
    "matrix": ["--write"],
}


@pytest.mark.parametrize("command", EXTRA_OF_COMMAND)
def test_a_command_names_the_extra_that_it_needs(base, command, tmp_path):
    folder, _ = base
    result = run(folder / "bin" / "rlrepro", command, *ARGUMENTS.get(command, ()), cwd=tmp_path)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert (
        f"rlrepro {command}" in result.stderr and f"pip install 'rlrepro[{EXTRA_OF_COMMAND[command]}]'" in result.stderr
    )


@pytest.mark.parametrize("name, extra", [("doctor.watch", "watch"), ("fit.plan_update", "fit"), ("lab.Release", "lab")])
def test_a_package_names_the_extra_that_it_needs(base, name, extra):
    folder, _ = base
    package, _, attribute = f"rlrepro.{name}".rpartition(".")
    error = run(folder / "bin" / "python", "-c", f"from {package} import {attribute}").stderr.splitlines()[-1]
    assert f"rlrepro.{name} needs " in error and error.endswith(f"pip install 'rlrepro[{extra}]'")


@pytest.mark.parametrize("name", sorted(FIXES))
def test_a_fix_names_its_missing_library(base, name):
    """Every fix exists in the base, and names the library that it needs and the releases it was tested with."""
    folder, _ = base
    error = run(folder / "bin" / "python", "-c", f"from rlrepro.fixes import {name}").stderr.splitlines()[-1]
    assert "rlrepro[parallel]" in error or f"{name} was tested with" in error or "No module named" in error
    if name in ("ChunkedPPOPolicy", "ChunkedPPO", "IncrementalSliceSampler", "SharedActionBuffer", "EnsemblePPO"):
        assert f"{name} was tested with" in error and "found none" in error


@pytest.mark.parametrize("version", PYTHONS)
def test_the_tests_of_the_base_pass(wheel, version, tmp_path):
    python = tmp_path / "env" / "bin" / "python"
    if failed := make(python, version, wheel, "pytest", "hypothesis"):
        pytest.skip(f"Python {version}: {failed}")
    for name in ("tests", "notebooks", "pyproject.toml"):  # without the package: the wheel's is tested
        (tmp_path / name).symlink_to(ROOT / name)
    deselected = [f"--deselect={test}" for test in NEED_MORE]
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow"]
    result = run(python, "-m", "pytest", *options, *BASE_TESTS, *deselected, cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-3000:]


def test_the_upload_is_complete(dist, wheel, tmp_path):
    (sdist,) = dist.glob("*.tar.gz")
    assert not call("uvx", "--quiet", "twine", "check", "--strict", wheel, sdist)
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"rlrepro/py.typed", "rlrepro/doctor/scan.py"} <= names
    assert not call("uv", "build", "--quiet", "--wheel", "--out-dir", tmp_path, sdist)
    (rebuilt,) = tmp_path.glob("*.whl")
    assert set(zipfile.ZipFile(rebuilt).namelist()) == names


def test_the_hook_of_pre_commit_installs_the_base_and_finds_a_problem(tmp_path):
    """pre-commit itself clones this repository, makes the hook's environment, and runs it on another."""
    python, project = tmp_path / "env" / "bin" / "python", tmp_path / "project"
    assert not make(python, "{}.{}".format(*sys.version_info), "pre-commit")
    run("git", "clone", "--quiet", ROOT, tmp_path / "hooks", check=True)
    commit = run("git", "rev-parse", "HEAD", cwd=tmp_path / "hooks", check=True).stdout.strip()
    project.mkdir()
    (project / "train.py").write_text(TROUBLE)
    (project / "requirements.txt").write_text("tianshou==1.0.0\n")
    (project / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: {tmp_path / 'hooks'}, rev: {commit}, hooks: [{{id: rlrepro-doctor}}]}}]"
    )
    for arguments in (("init", "--quiet"), ("add", ".")):
        run("git", *arguments, cwd=project, check=True)
    environment = ENVIRONMENT | {"PRE_COMMIT_HOME": str(tmp_path / "home")}
    result = run(python, "-m", "pre_commit", "run", "--all-files", cwd=project, env=environment)
    assert result.returncode == 1 and "train.py:3:10: TS001" in result.stdout, result.stdout + result.stderr
    (hook,) = (tmp_path / "home").glob("repo*/py_env-*")
    assert installed(hook / "bin" / "python") - {"tomli"} == BASE
    assert size(hook) - size_of_empty_environment(tmp_path) < LARGEST


def size_of_empty_environment(tmp_path) -> int:
    venv.create(tmp_path / "empty", with_pip=True)
    return size(tmp_path / "empty")
