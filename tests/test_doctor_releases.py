"""The release of a library that the doctor assumes: the pinned one, or one that has the API in use."""

import pytest

from rlrepro.doctor import examine

from .doctor_texts import PPO, codes, notebook


@pytest.mark.parametrize(
    "name, text, confidence",
    [
        ("requirements.txt", "tianshou==1.0.0", "high"),
        ("deep/requirements-dev.txt", "tianshou == 0.5.*  # both of them", "high"),
        ("requirements.txt", "tianshou>=0.5,<1.1", "high"),
        ("setup.py", "setup(install_requires=['numpy', 'tianshou~=0.5.0'])", "high"),
        ("setup.cfg", "[options]\ninstall_requires =\n    tianshou[envpool]==0.4.11", "high"),
        ("pyproject.toml", '[project]\ndependencies = ["tianshou<1.1,>=0.4.11"]', "high"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntianshou = "^0.5"', "high"),
        ("env.yml", "dependencies:\n  - tianshou=0.5.1=py_0\n  - pip:\n    - gym==0.26", "high"),
        ("docker/environment.yaml", "  - pip:\n    - tianshou==0.5.1", "high"),
        ("Dockerfile", "RUN pip install 'tianshou==1.0.0'", "high"),
        ("poetry.lock", '[[package]]\nname = "tianshou"\nversion = "1.0.0"', "high"),
        ("requirements.txt", "tianshou>=1.1,<3", None),
        ("requirements.txt", "tianshou>=1.0", "low"),  # 1.1 is fine
        ("requirements.txt", "tianshou-extras==1.0.0\n# tianshou==1.0.0", "low"),
        ("requirements.txt", "", "low"),
    ],
)
def test_the_release_is_the_one_that_the_project_pins(tmp_path, name, text, confidence):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(PPO)
    findings = examine([tmp_path], select=["TS001"]).findings
    assert [finding.confidence for finding in findings] == ([confidence] if confidence else [])


@pytest.mark.parametrize("version, confidence", [("0.4.4", None), ("0.5.1", "high"), ("1.1.0", None), ("?", "low")])
def test_a_program_uses_the_release_whose_source_lies_beside_it(tmp_path, version, confidence):
    (tmp_path / "requirements.txt").write_text("tianshou>=0.4")
    for name, text in (
        ("tianshou/__init__.py", f'from tianshou import data\n__version__ = "{version}"'),
        ("examples/discrete/ppo.py", PPO),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    findings = examine([tmp_path], select=["TS001"]).findings
    assert [finding.confidence for finding in findings] == ([confidence] if confidence else [])
    assert confidence != "high" or "the project contains tianshou 0.5.1" in findings[0].message


def test_the_nearest_pin_counts(tmp_path):
    for folder, release in (("old", "1.0.0"), ("new", "1.1.0")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(PPO)
        (tmp_path / folder / "requirements.txt").write_text(f"tianshou=={release}")
    (finding,) = examine([tmp_path], select=["TS001"]).findings
    assert finding.path.endswith("old/train.py") and "requirements.txt requires tianshou==1.0.0" in finding.message


@pytest.mark.parametrize(
    "line, expected",
    [
        ("from tianshou.algorithm import PPO", {"TS004"}),  # 2.x, and every known 2.x has the problem
        ("from tianshou.trainer import onpolicy_trainer", set()),
        ("from tianshou.utils import BasicLogger", set()),
        ("", set()),
    ],
)
def test_the_release_is_one_that_the_code_needs(tmp_path, line, expected):
    """Never the release installed beside the doctor, which is tianshou 2.0.1."""
    (tmp_path / "train.py").write_text(f"{line}\nfrom tianshou.data import Collector\nc = Collector(p, e)")
    assert codes(examine([tmp_path], select=["TS004"])) == expected


def test_a_cell_that_installs_is_a_pin(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(("code", "!pip install \\\n  tianshou==1.0.0"), ("code", PPO)))
    (finding,) = examine([tmp_path]).findings
    assert "a cell installs tianshou==1.0.0" in finding.message


def test_a_locked_release_goes_before_a_range_beside_it(tmp_path):
    (tmp_path / "train.py").write_text(PPO)
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["tianshou>=0.5,<3"]')
    for release, confidence in (("1.0.0", ["high"]), ("2.0.1", [])):
        (tmp_path / "uv.lock").write_text(f'[[package]]\nname = "tianshou"\nversion = "{release}"')
        findings = examine([tmp_path], select=["TS001"]).findings
        assert [finding.confidence for finding in findings] == confidence


def test_the_metadata_of_a_script_is_a_pin(tmp_path):
    metadata = '# /// script\n# dependencies = [\n#   "tianshou==1.0.0",\n# ]\n# ///\n'
    (tmp_path / "train.py").write_text(metadata + PPO)
    (finding,) = examine([tmp_path], select=["TS001"]).findings
    assert finding.confidence == "high" and "the script requires tianshou==1.0.0" in finding.message
