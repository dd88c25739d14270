"""The reports of open problems: each script and each test fails on the release, and passes with the change."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from rlrepro.course.reports import PEARL, ChangeDoesNotApply, Report, applied, render, reports, where
from rlrepro.lab.limits import limit

from .conftest import ROOT

REPORT_SECONDS = 400.0  # for a script and its test, which import a library and torch
LINES = 45  # at most, of a script
TREES = Path(__file__).parent / "segment_trees"
REPORTS = reports()
each_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@each_report
def test_a_report_names_its_release_and_needs_nothing_of_ours(report):
    text = render(report)
    lines = ", lines \\d+ to \\d+" if report.package_folder else ""
    assert re.search(rf"Open in {report.package} [\da-f.]+: \[`\w+[\w.]*`, {report.package}/[^],]+{lines}\]", text)
    files = [(report.folder / name).read_text() for name in ("show.py", "test_regression.py", "change.diff")]
    assert all(file in text for file in files) and not any("rlrepro" in file for file in files)
    assert len(files[0].splitlines()) <= LINES
    assert not [line for line in files[2].splitlines() if line.startswith(" ")]  # quotes no more than necessary


@each_report
def test_a_report_is_a_section_of_a_page(report):
    text = render(report, level=2)
    assert text.startswith(f"## {report.title}\n") and "\n### Cause\n" in text and "\n### The change\n" in text


def test_each_reference_machine_has_a_table(tmp_path):
    report = REPORTS["tianshou_gail"]
    assert "| 1,024 |" in render(report) and "*Measured on " in render(report)
    assert "There are no reference records" in render(report, results=tmp_path)


def test_lines_that_are_gone_are_named():
    assert where("tianshou", "tianshou.trainer:Trainer.gone") == (
        f"`Trainer.gone`, which tianshou {metadata.version('tianshou')} does not have in tianshou/trainer.py"
    )


def test_a_change_that_does_not_apply_raises_with_advice(tmp_path):
    (tmp_path / "change.diff").write_text(
        "--- a/tianshou/config.py\n+++ b/tianshou/config.py\n@@ -1 +1 @@\n-no\n+yes\n"
    )
    expected = r"tianshou [\d.]+ does not have the lines .* remove the report"
    with pytest.raises(ChangeDoesNotApply, match=expected), applied(Report(tmp_path)):
        pass


@pytest.mark.slow
def test_the_command_lists_and_prints(run_cli):
    listed = run_cli("report")
    assert listed.returncode == 0 and all(report.title in listed.stdout for report in REPORTS.values())
    name = next(iter(REPORTS))
    assert run_cli("report", name).stdout == render(REPORTS[name]) + "\n"
    unknown = run_cli("report", "nonsense")
    assert unknown.returncode == 2 and "no report 'nonsense'" in unknown.stderr and name in unknown.stderr


def replaced_parts(package):
    """Folders for PYTHONPATH that replace what does not load here: torchrl's extension, with a torch that it was not
    built for."""
    try:
        if package == "torchrl":
            import torchrl._torchrl  # noqa: F401
    except ImportError:
        return [TREES]
    return []


SCRIPT_AND_TEST = """
import runpy, sys, pytest
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
    status = 0
except SystemExit as end:
    status = int(end.code or 0)
print("exit status of the script:", status, flush=True)
options = ["-p", "no:cacheprovider", "-o", "addopts=", "--rootdir", "."]
sys.exit(pytest.main([*options, sys.argv[2]]))
"""


def run(report, folder, tmp_path):
    """Run the script and the test, with the changed copy in `folder` if there is one. One process runs both, since it
    takes seconds to import a library."""
    if folder is None and report.package == PEARL:
        folder = report.package_folder.parent
    path = os.pathsep.join(map(str, [*([folder] if folder else ()), *replaced_parts(report.package)]))
    return subprocess.run(
        [sys.executable, "-c", SCRIPT_AND_TEST, report.folder / "show.py", report.folder / "test_regression.py"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=limit(REPORT_SECONDS),
    )


@pytest.mark.slow
@pytest.mark.timeout(limit(2 * REPORT_SECONDS))
@each_report
def test_the_problem_exists_and_the_change_fixes_it(report, tmp_path):
    if report.package_folder is None:
        pytest.skip(f"no source of {report.package} here")
    if report.package == "torch" and not shutil.which("c++"):
        pytest.skip("no C++ compiler here")
    released = run(report, None, tmp_path)
    shown, _, tested = released.stdout.partition("exit status of the script: 1\n")
    assert shown and "Traceback" not in released.stderr, released.stdout + released.stderr
    assert released.returncode == 1 and " failed" in tested and not re.search(r"\d error", tested), released.stdout
    with applied(report) as folder:
        changed = run(report, folder, tmp_path)
    assert "exit status of the script: 0\n" in changed.stdout, changed.stdout + changed.stderr
    assert changed.returncode == 0, changed.stdout


@pytest.mark.slow
def test_our_environment_works_in_a_torchrl_that_no_longer_sets_flags_for_nobody():
    """It must not wait for them there."""
    tests = ROOT / "rlrepro/fixes/patient_parallel_env/test_patient_parallel_env.py"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=", str(tests)]
    with applied(REPORTS["torchrl_late_transitions"]) as folder:
        path = os.pathsep.join(map(str, [folder, ROOT]))
        completed = subprocess.run(
            [*command, "-k", "state or snapshot or interrupted"],
            env=os.environ | {"PYTHONPATH": path, "BATCHED_PIPE_TIMEOUT": "20"},
            capture_output=True,
            text=True,
            timeout=limit(REPORT_SECONDS),
        )
    assert completed.returncode == 0 and " passed" in completed.stdout, completed.stdout
