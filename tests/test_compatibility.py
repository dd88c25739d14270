"""Which fix works with which release: the plan, the records, and the texts written from them."""

import shutil

import pytest
from jinja2 import Environment, StrictUndefined

from rlrepro.course.site.template_context import template_context
from rlrepro.evidence import RecordBook, read_records
from rlrepro.evidence.compatibility import environments as trying
from rlrepro.evidence.compatibility import table
from rlrepro.evidence.compatibility.environments import PLAN, environments, outcomes
from rlrepro.evidence.compatibility.environments import Environment as Tried
from rlrepro.fixes import slice_sampler

from .conftest import ROOT
from .test_install import dist, wheel  # noqa: F401, the wheel of this checkout

WANTED = {
    "tianshou": ["0.5.1", "1.0.0", "1.1.0", "1.2.0", "2.0.1"],
    "torchrl": ["0.6", "0.7", "0.10", "0.13", "0.14"],
    "stable-baselines3": ["2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9"],
}
COMMITTED = sorted(ROOT.glob("results/*/compatibility.jsonl"))


@pytest.fixture
def book(tmp_path):
    book = RecordBook(tmp_path / "compatibility.jsonl", case="compatibility", profile="full", device="cpu", seed=0)

    def add(fix, release, works, reason=""):
        installed = {"python": "3.11.7", "torch": "2.13.0+cpu", "numpy": "2.4.6", "gymnasium": None}
        library = {"ChunkedPPOPolicy": "tianshou", "EnsemblePPO": "stable-baselines3", "in_chunks": "tianshou"}[fix]
        book.add("works", works, "yes/no", fix=fix, library=library, release=release, why=reason, **installed)

    add("EnsemblePPO", "2.10.0", True)
    add("EnsemblePPO", "2.9.2", False, "a | b")
    add("ChunkedPPOPolicy", "1.0.0", False, "was so once")  # in the same environment
    add("ChunkedPPOPolicy", "1.0.0", True)
    add("in_chunks", "1.0.0", True)
    return book


def test_the_plan_has_the_releases_that_matter_and_tests_that_exist():
    planned = [environment.release for environment in environments()]
    for library, releases in WANTED.items():
        for release in releases:
            assert any(name == library and f"{version}.".startswith(f"{release}.") for name, version in planned)
    for fix, plan in PLAN["fixes"].items():
        assert (table.FIXES / plan["test"]).exists(), fix
        assert any(fix in environment.fixes for environment in environments()), fix


def test_each_slice_sampler_is_tried_with_each_torchrl():
    for environment in environments(("torchrl",)):
        assert {fix for fix in environment.fixes if "SliceSampler" in fix} == set(slice_sampler.__all__)


def test_the_table_has_the_newest_of_each_by_release(book):
    lines = table.markdown(book.records).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == [
        "tianshou 1.0.0",
        "tianshou 1.0.0",
        "stable-baselines3 2.9.2",
        "stable-baselines3 2.10.0",
    ]
    assert lines[2].endswith("| yes |") and lines[4].endswith("| no: a \\| b |")


def test_a_fix_has_the_releases_it_works_and_fails_with(book):
    tested = table.tested_with(book.records)
    assert tested["EnsemblePPO"] == ("stable-baselines3", "2.10.0 (fails with 2.9.2)")
    assert tested["in_chunks"] == ("torch", "2.13.0") and tested["IncrementalSliceSampler"] == ("torchrl", "no release")


def test_the_releases_are_written_into_the_fixes(book, tmp_path):
    shutil.copytree(table.FIXES, tmp_path / "fixes")
    table.write(book.records, tmp_path / "fixes")
    assert "Tested with tianshou 1.0.0.\n" in (tmp_path / "fixes" / "tianshou" / "v1.py").read_text()
    namespace = {}
    exec((tmp_path / "fixes" / "ensemble_ppo" / "tested_with.py").read_text(), namespace)
    assert namespace["TESTED_WITH"] == {"EnsemblePPO": ("stable-baselines3", "2.10.0 (fails with 2.9.2)")}
    assert table.write(book.records, tmp_path / "fixes") == []


def test_the_fixes_agree_with_the_committed_records(tmp_path):
    records = read_records(COMMITTED[0])
    assert len(table.rows(records)) >= 15
    shutil.copytree(table.FIXES, tmp_path / "fixes")
    assert table.write(records, tmp_path / "fixes") == []


@pytest.mark.slow
def test_the_install_page_has_each_row(tmp_path):
    context = template_context(tmp_path / "none", ROOT / "results", "an address")
    template = Environment(undefined=StrictUndefined).from_string((ROOT / "book" / "install.md").read_text())
    page = template.render(context)
    for row in table.rows(read_records(COMMITTED[0])):
        assert f"| `{row.setting['fix']}` | {row.setting['library']} {row.setting['release']} |" in page


@pytest.mark.parametrize("mark", ["╰─▶", "cause:"])
def test_a_reason_that_uv_broke_into_lines_is_whole(mark):
    printed = (
        f"  No solution found:\n  {mark} Because only a==1 is available and a==1 depends\n      on packaging>=24\n"
    )
    reason = trying._reason(printed)
    assert reason == "Because only a==1 is available and a==1 depends on packaging>=24"


def test_a_skipped_test_has_its_reason():
    printed = "SKIPPED [1] slice_sampler/test_prioritized.py:13: does not load: why\n1 skipped in 0.42s\n"
    assert trying._reason(printed) == "does not load: why"


@pytest.mark.slow
def test_a_failure_is_an_outcome_with_its_reason(wheel):  # noqa: F811
    (missing,) = outcomes(Tried("3.11", ("packaging==25.0",), ("EnsemblePPO",)), wheel)
    assert not missing.works and "No module named" in missing.reason and missing.versions["packaging"] == "25.0"
    (nowhere,) = outcomes(Tried("3.11", ("packaging==0.0.1",), ("EnsemblePPO",)), wheel)
    assert not nowhere.works and nowhere.reason.startswith("can't be installed: ") and "packaging" in nowhere.reason


def test_every_planned_environment_was_tried():
    planned = {
        (fix, *environment.release, pin.removeprefix("torch=="))
        for environment in environments()
        for fix in environment.fixes
        for pin in environment.requirements
        if pin.startswith("torch==")
    }
    tried = [row.setting for row in table.rows(read_records(COMMITTED[0]))]
    assert planned == {
        (*(setting[key] for key in ("fix", "library", "release")), setting["torch"].split("+")[0]) for setting in tried
    }
