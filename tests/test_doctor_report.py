"""The doctor's input and output: settings, formats, explanations, the command line."""

import json
import subprocess
import sys

import pytest

from rlrepro.doctor import examine
from rlrepro.doctor.finding import all_rules
from rlrepro.doctor.report import FORMATS, MEASURED, explain
from rlrepro.doctor.scan import configuration

from .conftest import ROOT
from .doctor_texts import OLD, PPO


def test_all_codes_are_listed(run_cli):
    listed = run_cli("doctor", "--explain", "all").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(all_rules())


def test_the_project_has_settings(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["TS"]\nexclude = ["old/*"]\n')
    assert configuration(tmp_path / "deep") == {"ignore": ["TS"], "exclude": ["old/*"]}
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignored = ["TS"]\n')
    with pytest.raises(ValueError, match=r"takes select, ignore and exclude, each a list of strings; found ignored"):
        configuration(tmp_path)


@pytest.mark.parametrize("text", ["[tool]\nrlrepro = 5", "[tool.rlrepro]\nexclude = [3]"])
def test_invalid_settings_are_named(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ValueError, match=r"pyproject\.toml"):
        configuration(tmp_path)


@pytest.mark.parametrize("text", ["tool = 1", "[tool", "\xff"])
def test_a_project_is_scanned_without_settings_that_cannot_be_read(tmp_path, text, run_cli):
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    (tmp_path / "train.py").write_text("import torch\n")
    completed = run_cli("doctor", tmp_path)
    assert completed.returncode == 0 and "1 file read" in completed.stdout
    assert "pyproject.toml can't be read, so its settings are not used" in completed.stderr


def test_reading_no_file_is_not_a_success(tmp_path, run_cli):
    (tmp_path / "bad.py").write_text("x = (\n1,,\n2)")
    completed = run_cli("doctor", tmp_path)
    assert completed.returncode == 2 and "0 files read, 1 not read in full" in completed.stdout
    (tmp_path / "bad.py").unlink()
    completed = run_cli("doctor", tmp_path)
    assert completed.returncode == 2 and f"no Python file or notebook in {tmp_path}" in completed.stderr


def test_a_finding_is_printed_without_heavy_imports(tmp_path):
    """To print the cost of a finding, the doctor loads neither torch nor a plotting library."""
    (tmp_path / "train.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)")
    script = f"""if True:
    import sys
    from rlrepro.doctor import examine, finding
    from rlrepro.doctor.report import FORMATS
    print(FORMATS["text"](examine([{str(tmp_path)!r}])))
    sys.exit(",".join(sorted({{"torch", "gymnasium", "matplotlib", "pydantic", "numpy"}} & set(sys.modules))))
    """
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "TO002" in completed.stdout and completed.stderr.strip() == ""


def test_every_format_has_the_same_findings(tmp_path):
    (tmp_path / "train.py").write_text(PPO)
    (tmp_path / "bad.py").write_text("x = (\n1,,\n2)")
    report = examine([tmp_path], versions=OLD)
    text = FORMATS["text"](report)
    assert "train.py:3:10: TS001" in text and "fix: Install tianshou 1.1.0" in text
    assert "bad.py: can't be parsed as Python" in text and "1 file read, 1 not read in full, 1 finding;" in text
    output = json.loads(FORMATS["json"](report))
    (entry,), (omitted,) = output["findings"], output["left_out"]
    assert entry["code"] == "TS001" and entry["line"] == 3 and {"path", "message", "fix", "chapter"} <= set(entry)
    assert omitted["path"].endswith("bad.py") and output["read"] == 1
    sarif = json.loads(FORMATS["sarif"](report))
    (run,) = sarif["runs"]
    assert sarif["version"] == "2.1.0" and run["tool"]["driver"]["rules"][0]["id"] == "TS001"
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 10}
    assert run["results"][0]["level"] == "error"
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "can't be parsed" in note["message"]["text"] and "title=not read::can't be parsed" in FORMATS["github"](
        report
    )
    assert FORMATS["github"](report).startswith("::error file=") and "line=3,col=10,title=TS001::" in FORMATS["github"](
        report
    )


def test_every_rule_is_explained_with_its_measurements():
    for code, rule in all_rules().items():
        page = explain(rule)
        assert page.startswith(f"{code}: {rule.title}") and rule.fix in page and len(rule.why) > 60
        assert (ROOT / "notebooks" / f"{rule.chapter}.ipynb").exists()
        assert ("Measured:" in page) or not rule.claims


def test_measured_costs_agree_with_the_reference_records():
    from rlrepro.course.rule_costs import measured  # which needs the course

    assert json.loads(MEASURED.read_text()) == measured(), "write it anew: python -m rlrepro.course.rule_costs"


@pytest.mark.slow
def test_the_command_line_answers_people_and_programs(run_cli, tmp_path):
    (tmp_path / "train.py").write_text(PPO)
    (tmp_path / "requirements.txt").write_text("tianshou==1.0.0")
    completed = run_cli("doctor", tmp_path)
    assert completed.returncode == 1 and "TS001" in completed.stdout
    completed = run_cli("doctor", tmp_path, "--format", "json")
    assert {"code", "path", "line", "message"} <= set(json.loads(completed.stdout)["findings"][0])
    assert run_cli("doctor", tmp_path, "--ignore", "TS001").returncode == 0
    assert run_cli("doctor", tmp_path / "none").returncode == 2
    assert "no rule's code begins with 'XX'" in run_cli("doctor", tmp_path, "--select", "XX").stderr
    assert run_cli("doctor", "--explain", "TR004").stdout.startswith("TR004: a cache that every write")
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["TS"]')
    assert run_cli("doctor", tmp_path).returncode == 0
