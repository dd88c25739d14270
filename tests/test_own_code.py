"""Chapter 7's project has one problem per chapter; the doctor finds them, and fixes those that the chapter lists."""

from pathlib import Path

from rlrepro.cases.own_code import SETTINGS, workloads
from rlrepro.doctor.autofix import fixed_files
from rlrepro.doctor.scan import examine

EXPECTED = {
    "ppo.py": {"TS001", "TS002"},
    "recommender.py": {"LA001"},
    "sweep.py": {"PT001"},
    "world_model.py": {"TR002", "TR005"},
    "newest/frames.py": {"RL001"},
    "newest/robots.py": {"TR006"},
    "newest/sac.py": {"TS004", "TS005"},
}


def codes(project):
    by_file = {}
    for finding in examine([project]).findings:
        by_file.setdefault(Path(finding.path).relative_to(project).as_posix(), set()).add(finding.code)
    return by_file


def test_each_script_has_its_problem_until_it_is_fixed(tmp_path):
    project = workloads.copy_project(tmp_path / "project", SETTINGS["smoke"])
    assert codes(project) == EXPECTED
    for file in fixed_files(examine([project])):
        file.write()
    assert codes(project) == {"recommender.py": {"LA001"}}  # for its owner to decide


def test_all_scripts_run_in_the_profile_full():
    assert {script for group in SETTINGS["full"].runs for script in group} == {*EXPECTED}
