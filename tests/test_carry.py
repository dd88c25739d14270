"""The bundle for a machine without a network, built by pip from the metadata of installed packages."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from rlrepro.cli import main
from rlrepro.course import offline_bundle
from rlrepro.course.offline_bundle import NOT_BUNDLED, CannotCarry, carry, missing_packages, read_packages
from rlrepro.metadata import requirements


def test_all_requirements_are_bundled_in_their_installed_versions():
    carried = missing_packages(requirements(), "3.12", {})
    assert {"tianshou", "deepdiff", "ordered-set", "pyzmq"} <= set(carried)  # pyzmq is five dependencies away
    assert carried == {name: metadata.version(name) for name in carried}
    assert not {"ray", "pytest", "jupyter-book", "nvidia-cublas", "triton", "sympy", *NOT_BUNDLED} & set(carried)


def test_each_excluded_package_is_a_dependency():
    """A misspelt name, or one that no package needs any more, would exclude nothing."""
    carried = missing_packages(requirements(), "3.12", {})
    texts = [text for texts in (requirements(), *map(metadata.requires, carried)) for text in texts or ()]
    assert {canonicalize_name(Requirement(text).name) for text in texts} >= set(NOT_BUNDLED)


def test_the_other_pythons_markers_count():
    """tensordict needs orjson on Python before 3.13."""
    assert "orjson" in missing_packages(["tensordict"], "3.12", {})
    assert "orjson" not in missing_packages(["tensordict"], "3.13", {})
    assert not missing_packages(['tqdm; sys_platform == "darwin"', 'tqdm; extra == "ray"'], "3.12", {})


def test_installed_packages_and_their_dependencies_are_not_bundled():
    assert {"deepdiff", "ordered-set"} <= set(missing_packages(["tianshou"], "3.12", {}))
    assert not {"deepdiff", "ordered-set"} & set(missing_packages(["tianshou"], "3.12", {"deepdiff": "7.5"}))


def test_a_package_installed_in_an_incompatible_version_is_bundled():
    """tianshou needs pandas before 3 and matplotlib from 3.0."""
    carried = missing_packages(["tianshou"], "3.12", {"pandas": "3.1.1", "matplotlib": "3.0", "tqdm": "0.0.1"})
    assert carried["pandas"] == metadata.version("pandas") and "matplotlib" not in carried and "tqdm" not in carried
    assert "tqdm" in missing_packages(["tianshou", "tqdm>=4"], "3.12", {"tqdm": "0.0.1"})  # it satisfies only one


def test_an_extra_includes_its_dependencies():
    plain = missing_packages(["gymnasium"], "3.12", {})
    assert "mujoco" not in plain and "numpy" in plain
    for texts in (["gymnasium[mujoco]"], ["gymnasium", "gymnasium[mujoco]"], ["gymnasium[mujoco]", "gymnasium"]):
        assert {*plain, "mujoco", "mujoco-core"} <= set(missing_packages(texts, "3.12", {}))


def test_another_torch_can_not_be_carried():
    missing_packages(requirements(), "3.12", {"torch": "2.11.0+cu130"})
    with pytest.raises(
        CannotCarry, match=r"rlrepro needs torch.*2\.11.*the target has 2\.3\.0: install a matching one there"
    ):
        missing_packages(requirements(), "3.12", {"torch": "2.3.0"})


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(CannotCarry, match=r"rlrepro needs nowhere>=2 on Python 3\.12.*pip install 'nowhere>=2'"):
        missing_packages(["nowhere>=2"], "3.12", {})


def test_reads_the_output_of_pip(tmp_path):
    file = tmp_path / "there"
    file.write_text("# a comment\nPyYAML==6.0.3\n\ntorch==2.11.0+cu130\npydantic_core==2.50.4\n")
    assert read_packages(file) == {"pyyaml": "6.0.3", "torch": "2.11.0+cu130", "pydantic-core": "2.50.4"}


@pytest.mark.parametrize("line", ["torch @ file:///torch.whl", "-e git+https://a.b/c", "torch 2.11.0", "\0\xff"])
def test_names_the_line_that_it_can_not_read(tmp_path, line):
    (tmp_path / "there").write_bytes(b"numpy==2.0\n" + line.encode("latin-1"))
    with pytest.raises(CannotCarry, match=r"there, line 2: .*--format=freeze"):
        read_packages(tmp_path / "there")


@pytest.fixture
def small_bundle(monkeypatch):
    """A small bundle: a package, its dependency and an overlay."""
    monkeypatch.setattr(offline_bundle, "requirements", lambda: ["deepdiff", "orjson"])
    monkeypatch.setattr(offline_bundle, "known_releases", lambda: ["tianshou==1.0.0"])


@pytest.mark.slow
def test_wheels_and_overlays_for_that_python(small_bundle, tmp_path):
    carry(tmp_path, "3.12", {"orjson": "3"})
    wheels = [parse_wheel_filename(path.name) for path in (tmp_path / "wheels").iterdir()]
    assert {name: str(version) for name, version, *_ in wheels} == missing_packages(["deepdiff"], "3.12", {})
    assert (tmp_path / "cache" / "overlays" / "cpython-312-linux-x86_64" / "tianshou-1.0.0" / "tianshou").is_dir()
    with pytest.raises(CannotCarry, match="wheels is not empty"):
        carry(tmp_path, "3.12")


@pytest.mark.slow
def test_a_compiled_package_is_the_other_pythons(small_bundle, tmp_path):
    carry(tmp_path, "3.12", {"deepdiff": "7"})
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert "-cp312-cp312-manylinux" in wheel.name


@pytest.mark.slow
def test_a_package_without_a_wheel_for_that_python_is_named(small_bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(offline_bundle, "missing_packages", lambda *_: {"deepdiff": "7.0.1", "torchrl": "0.6.0"})
    with pytest.raises(CannotCarry, match=r"no wheel of torchrl==0\.6\.0 for Python 3\.13"):
        carry(tmp_path, "3.13")
    carry(tmp_path, "3.12")  # the failed attempt left nothing in the way


def test_a_missing_network_is_reported(small_bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(offline_bundle, "known_releases", dict)
    for name in ("PIP_CONFIG_FILE", "PIP_FIND_LINKS", "PIP_NO_CACHE_DIR"):
        monkeypatch.setenv(name, "/dev/null" if name == "PIP_CONFIG_FILE" else "")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # no server listens there
    with pytest.raises(CannotCarry, match="could not be reached"):
        carry(tmp_path, "3.12")


@pytest.mark.slow
def test_the_command_prints_what_to_run_on_the_target(small_bundle, tmp_path):
    """The target has the same Python as this machine, so the test runs the first line."""
    (tmp_path / "there").write_text("orjson==3\n")
    python = "{}.{}".format(*sys.version_info)
    arguments = [tmp_path / "to carry", "--python", python, "--installed", tmp_path / "there"]
    result = CliRunner().invoke(main, ["carry", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    install, run = result.output.splitlines()[-2:]
    assert run == (
        "PYTHONPATH='to carry'/site:. RLREPRO_CACHE=$PWD/'to carry'/cache "
        "python3 -m rlrepro reproduce --device cuda --profile full"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-c", install], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
    assert (tmp_path / "to carry" / "site" / "deepdiff" / "__init__.py").exists()


@pytest.mark.parametrize("text, code", [("numpy\n", 1), (None, 2)])
def test_a_list_that_can_not_be_read_is_an_error_of_the_command(run_cli, tmp_path, text, code):
    if text:
        (tmp_path / "there").write_text(text)
    completed = run_cli("carry", "out", "--python", "3.12", "--installed", "there")
    assert completed.returncode == code and "there" in completed.stderr and "Traceback" not in completed.stderr
    assert not (tmp_path / "out").exists()
