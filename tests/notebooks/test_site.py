"""How the site is assembled; these tests need no browser."""

import re
import shutil

import pytest
from click.testing import CliRunner
from filelock import FileLock
from nbformat import v4

import rlrepro
from rlrepro import cli
from rlrepro.cases import all_claims
from rlrepro.course import runner as reproduce
from rlrepro.course.rule_costs import measured
from rlrepro.course.runner import find_notebooks, outdated, parameters_of_run
from rlrepro.course.site import reference_pages
from rlrepro.course.site.api import api
from rlrepro.course.site.assemble import NothingToShow, make_page, slug, stage
from rlrepro.course.site.build import BookFailed, build
from rlrepro.course.site.reference_tabs import plots_of, reference_tabs
from rlrepro.doctor.finding import all_rules
from rlrepro.evidence import MissingRecord, Records
from rlrepro.evidence.verdicts import load_runs

from ..conftest import REFERENCE, ROOT


@pytest.mark.slow
def test_a_warning_is_an_error_and_the_book_of_before_stays(run, tmp_path, monkeypatch):
    (tmp_path / "_build" / "html").mkdir(parents=True)
    (tmp_path / "_build" / "html" / "index.html").write_text("the one before")
    prose = tmp_path / "prose"
    shutil.copytree(ROOT / "book", prose, ignore=shutil.ignore_patterns("_build"))
    (prose / "_toc.yml").write_text("format: jb-book\nroot: lonely\n")
    (prose / "lonely.md").write_text("# Lonely\n\n[nowhere](no-such-page.md)\n")
    monkeypatch.setattr("rlrepro.course.site.assemble.BOOK", prose)
    with pytest.raises(BookFailed, match="no-such-page"):
        build(run, tmp_path)
    assert (tmp_path / "_build" / "html" / "index.html").read_text() == "the one before"
    assert {path.name for path in (tmp_path / "_build").iterdir()} == {"html", ".lock"}


@pytest.mark.slow
def test_a_run_without_a_notebook_is_named(run, tmp_path):
    partial = tmp_path / "run"
    partial.mkdir()
    for path in run.glob("*.*"):
        if path.name != "03_slice_sampler.ipynb":
            shutil.copy(path, partial)
    with pytest.raises(NothingToShow, match="03_slice_sampler"):
        stage(partial, tmp_path / "staged", results=ROOT / "results")


@pytest.mark.slow
def test_each_of_several_machines_has_a_tab_with_its_figures(tmp_path):
    reference = REFERENCE / "02_logp_old_oom.jsonl"
    for name in ("one", "two"):
        (tmp_path / "results" / name).mkdir(parents=True)
        shutil.copy(reference, tmp_path / "results" / name)
    path = tmp_path / "results" / "two" / reference.name
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "logp_old.timeline" in line))
    (cell,) = reference_tabs("02_logp_old_oom", tmp_path / "results")
    one, two = cell.source.split("{tab-item} ")[1:]
    assert one.startswith("one, full\n") and two.startswith("two, full\n")
    assert one.count("```{raw} html\n<figure") >= 4 and two.count("```{raw} html\n<figure") == 1
    assert "release by release" in two
    assert "Not measured" not in one
    assert re.search(r"(\d+) of the (\d+) figures are missing, because", two).groups() == ("6", "7")
    path.write_text("")
    (cell,) = reference_tabs("02_logp_old_oom", tmp_path / "results")
    assert cell.source.count("{tab-item}") == 1
    assert reference_tabs("00_start_here", tmp_path / "results") == []
    assert reference_tabs("02_logp_old_oom", tmp_path) == []


@pytest.mark.parametrize("chapter", sorted({claim.chapter for claim in all_claims()}))
def test_a_figure_without_its_records_says_so(chapter):
    for plot in plots_of(chapter).values():
        with pytest.raises(MissingRecord):
            plot(Records())


def test_each_term_of_the_glossary_names_a_chapter():
    terms = re.findall(r"^(\S.*)\n((?:  .*\n)+)", (ROOT / "book/glossary.md").read_text(), re.MULTILINE)
    assert len(terms) >= 20 and all("](notebooks/" in text for _, text in terms)


def test_a_link_to_a_heading_is_spelled_as_the_site_does():
    assert slug("What-fits-on-my-card?") == "what-fits-on-my-card"
    assert slug("If-you-can't-upgrade") == "if-you-cant-upgrade"


@pytest.mark.slow
def test_generated_pages_agree_with_the_code(tmp_path):
    bibtex = reference_pages.bibtex(2031)
    assert f"version = {{{rlrepro.__version__}}}" in bibtex and "year = {2031}" in bibtex
    assert "--seconds" in reference_pages.help_of("doctor") and "--gib" in reference_pages.help_of("fit")
    runs = load_runs(tmp_path / "none", ROOT / "results")
    rules = reference_pages.rules(runs)
    assert re.findall("^## (.*)", rules, re.MULTILINE) == list(all_rules())
    assert all(line in rules for lines in measured(runs).values() for line in lines)
    packages = re.findall(r"\| (\d+) \|", reference_pages.sizes())
    assert int(packages[0]) < 10 < int(packages[-1]) and len(packages) == len(reference_pages.EXTRAS)
    assert "| 03_slice_sampler |" not in reference_pages.times(tmp_path)


def test_names_that_can_not_be_imported_here_are_documented_from_their_source():
    text = api("rlrepro.fixes")
    assert ".. autofunction:: rlrepro.fixes.in_chunks" in text and ".. autoclass:: rlrepro.fixes.FactoredQ" in text
    assert ".. py:class:: rlrepro.fixes.ChunkedPPOPolicy\n\n   PPO" in text
    assert ".. py:class:: rlrepro.fixes.PearlFactoredQ\n\n   Replaces Pearl's" in text


@pytest.fixture
def copied(run, tmp_path):
    """A copy of the run, and a copy of the notebooks."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    (tmp_path / "run").mkdir()
    for path in (*run.glob("*.ipynb"), *run.glob("*.jsonl")):
        shutil.copy(path, tmp_path / "run")
    return tmp_path / "run", tmp_path / "notebooks"


def test_changed_notebooks_are_run_again_and_then_the_verdicts(copied):
    out, notebooks = copied
    assert outdated(out, notebooks) == []
    path = notebooks / "03_slice_sampler.ipynb"
    path.write_text(path.read_text().replace("## Predict", "## Guess"))
    (out / "01_two_batch_sizes.jsonl").unlink()
    (out / "04_parallel_training.ipynb").write_text("{")
    expected = ["01_two_batch_sizes", "03_slice_sampler", "04_parallel_training", "06_verdicts"]
    assert [path.stem for path in outdated(out, notebooks)] == expected
    assert outdated(out / "none", notebooks) == find_notebooks(folder=notebooks)


def test_notebooks_run_again_have_the_parameters_of_the_run(copied, monkeypatch):
    out, _ = copied
    for path in out.glob("*.ipynb"):
        text = re.sub(r'"profile": "(tiny|smoke)"', '"profile": "full"', path.read_text())
        path.write_text(text.replace('"device": "cpu"', '"device": "cuda:1"'))
    (out / "06_verdicts.jsonl").unlink()
    calls = []
    monkeypatch.setattr(reproduce, "run_notebooks", lambda *args: calls.append(args) or [])
    monkeypatch.setattr("rlrepro.course.site.build.build", lambda run, out: out)
    result = CliRunner().invoke(cli.main, ["book", "--run", str(out)])
    assert result.exit_code == 0, result.output
    ((notebooks, folder, parameters),) = calls
    assert [path.stem for path in notebooks] == ["06_verdicts"] and folder == out
    assert parameters == {"profile": "full", "device": "cuda:1"}
    assert parameters_of_run(out / "none") == {"profile": "smoke", "device": "auto"}


@pytest.mark.slow
def test_prose_with_an_undefined_name_is_reported(run, tmp_path, monkeypatch):
    prose = tmp_path / "prose"
    shutil.copytree(ROOT / "book", prose, ignore=shutil.ignore_patterns("_build"))
    (prose / "gpu.md").write_text("{{ nothing_of_the_kind }}")
    monkeypatch.setattr("rlrepro.course.site.assemble.BOOK", prose)
    with pytest.raises(NothingToShow, match=r"gpu.md uses a name that does not exist: 'nothing_of_the_kind'"):
        stage(run, tmp_path / "staged", results=ROOT / "results")


def test_a_page_has_nothing_for_readers_with_a_kernel():
    output = v4.new_output("display_data", {"text/markdown": "measured 3. (No guess was entered above.)"})
    cells = [
        v4.new_code_cell("x = None\ncheck('1.1', x)", outputs=[v4.new_output("stream", text="not answered")]),
        v4.new_code_cell("guess", outputs=[output]),
        v4.new_code_cell("folded", metadata={"tags": ["settings", "hide-input"]}),
        v4.new_markdown_cell("[a](02_x.ipynb#What-is-it?) [b](../book/solutions/02_x.md)"),
    ]
    notebook = v4.new_notebook(cells=cells, metadata={"widgets": {"state": {}}})
    make_page(notebook)
    assert "widgets" not in notebook.metadata
    exercise, guess, folded, text = notebook.cells
    assert exercise.outputs == [] and guess.outputs[0].data["text/markdown"] == "measured 3"
    assert folded.metadata.tags == ["hide-input", "hide-input"] and guess.metadata.tags == []
    assert text.source == "[a](02_x.ipynb#what-is-it) [b](../solutions/02_x.md)"


def test_the_command_line_names_the_missing_notebook(run_cli, run, tmp_path):
    partial = tmp_path / "run"
    shutil.copytree(run, partial)
    with FileLock(partial / ".02_logp_old_oom.lock"):
        (partial / "02_logp_old_oom.ipynb").unlink()
        result = run_cli("book", "--run", partial, "--out", tmp_path / "book")
    assert result.returncode == 1 and "another run is writing" in result.stderr and "Traceback" not in result.stderr
