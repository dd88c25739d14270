"""`rlrepro fit MODULE:FUNCTION`: plans what a builder returns."""

import json
import re

import pytest

from rlrepro.fit import CannotPlan
from rlrepro.fit.command import describe_plan

BUILDER = """
from rlrepro.cases.common.tianshou_vectors import DiscreteActor, VectorCritic
from gymnasium import spaces
def build():
    return DiscreteActor(64, 6), VectorCritic(64), spaces.Box(-1, 1, (64,)), spaces.Discrete(6)
def wrong():
    return 3
def fails():
    return 1 / 0
def leaves():
    raise SystemExit
"""


def test_options_of_networks_are_refused_for_a_file(tmp_path):
    (tmp_path / "train.py").write_text("")
    with pytest.raises(CannotPlan, match=r"--batch-size is for MODULE:FUNCTION.*--size batch_size 64"):
        describe_plan(str(tmp_path / "train.py"), 8, batch_size=32, rollout=None)


@pytest.mark.slow
def test_the_command_line_answers_people_and_programs(run_cli, tmp_path):
    (tmp_path / "mine.py").write_text(BUILDER)
    table = run_cli("fit", "mine:build", "--gib", 0.001, "--rollout", 2048)
    assert table.returncode == 1 and "does not fit" in table.stdout and "largest batch_size" in table.stdout
    report = json.loads(run_cli("fit", "mine:build", "--gib", 8, "--rollout", 2048, "--json").stdout)
    assert report["fits"] and report["failing_stage"] is None
    assert set(report["stages_bytes"]) == set(report["margins_bytes"]) == {"collect", "preprocess", "learn"}


@pytest.mark.slow
def test_the_command_names_the_defaults_it_takes(monkeypatch, tmp_path):
    (tmp_path / "named.py").write_text(BUILDER)
    monkeypatch.chdir(tmp_path)
    text, fits = describe_plan("named:build", 0.1)
    assert fits and "planned with --rollout 2048, --batch-size 64, --library tianshou-ppo, --envs 1" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "builder, message",
    [
        ("mine", "MODULE:FUNCTION"),
        ("nowhere:build", "No module named 'nowhere'"),
        ("mine:absent", "no attribute 'absent'"),
        ("mine:wrong", "must return"),
        ("mine:fails", "ZeroDivisionError.*mine.py:9: return 1 / 0"),
        ("mine:leaves", "SystemExit"),
    ],
)
def test_an_invalid_builder_is_explained(run_cli, tmp_path, builder, message):
    (tmp_path / "mine.py").write_text(BUILDER)
    completed = run_cli("fit", builder, "--gib", 8)
    assert completed.returncode == 2 and re.search(message, completed.stderr.replace("\n", " "))
