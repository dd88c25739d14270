"""Precision and recall on other people's code."""

from rlrepro.doctor.field import look, rows, table, write

TWO_FINDINGS = """\
import torch
config = {"detect_anomaly": True}
torch.autograd.set_detect_anomaly(True)
torch.ones(1, requires_grad=True).backward()
train(config)
def train(config): ...
"""
FINDING = {"repository": "someone/agent", "path": "train.py", "cell": "", "line": "3", "code": "TO002"}
SITE = {"repository": "someone/agent", "path": "train.py", "line": "2", "problem": "anomaly", "reason": "", "found": ""}


def test_a_site_has_the_confidence_of_the_surest_finding(tmp_path):
    (tmp_path / "someone+agent").mkdir()
    (tmp_path / "someone+agent" / "train.py").write_text(TWO_FINDINGS)
    write("repositories", [{"repository": "someone/agent", "commit": "", "group": "next"}], tmp_path)
    write("findings", [FINDING | {"confidence": "high", "verdict": "true", "reason": ""}], tmp_path)
    write("sites", [SITE], tmp_path)
    assert not look([tmp_path], tmp_path)
    assert [site["found"] for site in rows("sites", tmp_path)] == ["high"]


def test_the_group_that_was_counted_last_comes_first(tmp_path):
    owners = {"one/agent": "next", "two/agent": "blind", "three/agent": "blind"}
    write("repositories", [{"repository": name, "commit": "", "group": owners[name]} for name in owners], tmp_path)
    verdicts = {"one/agent": "true", "two/agent": "false", "three/agent": "true"}
    findings = [FINDING | {"repository": name, "confidence": "low", "verdict": verdicts[name]} for name in owners]
    write("findings", findings, tmp_path)
    write("sites", [SITE | {"repository": "one/agent"}], tmp_path)
    first = table(tmp_path).splitlines()[0]
    assert first == "*blind* was counted last, with 2 findings: 50% true, 0% harmless, 50% false."
