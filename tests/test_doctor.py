"""Does the doctor find real problems, and leave lookalikes alone?"""

from dataclasses import replace

import pytest

from rlrepro.doctor import examine
from rlrepro.doctor.finding import _rules, all_rules
from rlrepro.doctor.scan import UnknownCode

from .doctor_corpus import BROKEN, DOUBTFUL, INNOCENT, TROUBLED
from .doctor_corpus_found import LIKELY, UNLIKELY
from .doctor_texts import PPO, codes, examined, versions_for

TROUBLED, INNOCENT = TROUBLED | LIKELY, INNOCENT | UNLIKELY


@pytest.mark.parametrize("title", TROUBLED)
def test_problems_are_found(tmp_path, title):
    expected, releases, text = TROUBLED[title]
    assert codes(examined(tmp_path, text, versions=versions_for(releases))) == expected


@pytest.mark.parametrize("title", INNOCENT)
def test_lookalikes_are_left_alone(tmp_path, title):
    releases, text = INNOCENT[title]
    assert codes(examined(tmp_path, text, versions=versions_for(releases))) == set()


@pytest.mark.parametrize("title", DOUBTFUL | BROKEN)
def test_code_that_may_not_run_or_matter_has_low_confidence(tmp_path, title):
    code, files, change = (DOUBTFUL | BROKEN)[title]
    (tmp_path / ".git").mkdir()
    for contents, expected in ((files, True), (change, False)):
        for name, text in contents.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        findings = examine([tmp_path], select=[code]).findings
        assert len(findings) == 1 and (findings[0].confidence == "low") is expected


def test_a_line_has_a_finding_once_and_all_its_fixes(tmp_path):
    loaders = "DataLoader(TensorDataset(x), shuffle=True), DataLoader(TensorDataset(y), shuffle=True)"
    text = f"from torch.utils.data import DataLoader, TensorDataset\nfirst, second = {loaders}"
    assert [finding.line for finding in examined(tmp_path, text).findings] == [2]
    lists = "torch.tensor([np.array(s) for s in x]), torch.tensor([np.array(s) for s in y])"
    report = examined(tmp_path, f"import numpy as np\nimport torch\nfirst, second = {lists}")
    assert len(report.findings) == 1 and len(*report.edits.values()) == 2


def test_the_corpus_is_large_and_half_of_it_innocent():
    assert len(TROUBLED) + len(INNOCENT) >= 60 and len(INNOCENT) >= 30
    assert {code for expected, _, _ in TROUBLED.values() for code in expected} == {
        code for code, rule in all_rules().items() if not rule.live
    }


def test_a_finding_has_its_place(tmp_path):
    (finding,) = examined(tmp_path, PPO).findings
    assert (finding.line, finding.column, finding.cell) == (3, 10, None)
    assert str(finding).startswith(f"{tmp_path}/train.py:3:10: TS001 tianshou 0.4.11 to 1.0.0 computes")


def test_a_limit_in_a_module_beside_counts(tmp_path):
    sweep = "import multiprocessing\nfrom worker import work\nmultiprocessing.Pool(8).map(work, range(8))"
    work = "import torch\ndef work(seed):\n    loss(seed).backward()\n"
    (tmp_path / "sweep.py").write_text(sweep)
    (tmp_path / "worker.py").write_text(work)
    (finding,) = examine([tmp_path]).findings
    assert finding.code == "PT001" and "trains (worker.py:3)" in finding.message
    (tmp_path / "worker.py").write_text(work + "torch.set_num_threads(1)\n")
    assert codes(examine([tmp_path])) == set()
    (tmp_path / "worker.py").write_text(work)
    (tmp_path / "run.sh").write_text("OMP_NUM_THREADS=1 python sweep.py")
    assert codes(examine([tmp_path])) == set()


def test_work_is_followed_through_a_package(tmp_path):
    """An import of an import, a method of a base class, and an instance that another function makes."""
    package = tmp_path / "agents"
    package.mkdir()
    (package / "__init__.py").write_text("from .ppo import PPO\n")
    (package / "base.py").write_text("class Base:\n    def improve(self):\n        self.loss().backward()\n")
    (package / "ppo.py").write_text("import torch\nfrom agents.base import Base\nclass PPO(Base): ...\n")
    (tmp_path / "job.py").write_text("from agents import PPO\ndef job(seed):\n    agent = PPO()\n    agent.improve()\n")
    (tmp_path / "main.py").write_text(
        "from multiprocessing import Process\nimport job\nfor k in range(4):\n    Process(target=job.job).start()\n"
    )
    (finding,) = examine([tmp_path]).findings
    assert finding.path.endswith("main.py") and "trains (base.py:3)" in finding.message
    (package / "base.py").write_text("class Base:\n    def improve(self):\n        pass\n")
    assert codes(examine([tmp_path])) == set()


@pytest.mark.parametrize("comment", ["# rlrepro: ignore", "# rlrepro: ignore[TS001]", "# rlrepro:ignore[LA001, TS001]"])
def test_a_line_can_be_ignored(tmp_path, comment):
    assert codes(examined(tmp_path, PPO.replace("critic)", f"critic)  {comment}"))) == set()
    assert codes(examined(tmp_path, PPO.replace("critic)", "critic)  # rlrepro: ignore[TR001]"))) == {"TS001"}


def test_codes_are_selected_and_ignored_by_their_beginning(tmp_path):
    assert codes(examined(tmp_path, PPO, select=["TS"])) == {"TS001"}
    assert codes(examined(tmp_path, PPO, select=["TR"])) == set()
    assert codes(examined(tmp_path, PPO, ignore=["TS001"])) == set()
    with pytest.raises(UnknownCode, match="no rule's code begins with 'XX'; the codes are LA001"):
        examined(tmp_path, PPO, select=["XX"])


def test_findings_in_tests_have_low_confidence(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "check.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)")
    assert [finding.confidence for finding in examine([tmp_path]).findings] == ["low"]


def test_a_failing_rule_does_not_stop_the_others(tmp_path, monkeypatch):
    def broken(module, project):
        raise ZeroDivisionError("of a rule")
        yield

    rule = all_rules()["TS001"]
    monkeypatch.setitem(_rules, "TS001", replace(rule, check=broken))
    result = examined(tmp_path, PPO + "Normal.set_default_validate_args = False\n")
    assert codes(result) == {"TO003"} and "TS001 failed: ZeroDivisionError: of a rule" in result.left_out[0].why
