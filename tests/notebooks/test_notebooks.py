"""Every notebook, through papermill, as a reader runs it."""

import json
import re

import nbformat
import pytest

from rlrepro.cases import all_claims
from rlrepro.course.runner import find_notebooks, parameters_of

NOTEBOOKS = find_notebooks()
COLUMNS = 80  # of code that a page of 1,280 pixels shows


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_has_one_parameters_cell_of_at_most_eight_and_no_outputs(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
    assert not any(cell.outputs or cell.execution_count for cell in cells)
    parameters = parameters_of(path)
    assert {"profile", "device", "seed", "out"} <= set(parameters) and len(parameters) <= 8
    assert all(parameters.values())  # every parameter has a description


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_line_of_code_is_longer_than_a_page_shows(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    visible = [cell for cell in cells if "remove-cell" not in cell.metadata.get("tags", [])]
    assert not [line for cell in visible for line in cell.source.splitlines() if len(line) > COLUMNS]


def test_all_run(run):
    assert {path.name for path in run.glob("*.ipynb")} == {path.name for path in NOTEBOOKS}
    assert {path.stem for path in run.glob("*.jsonl")} == {path.stem for path in NOTEBOOKS}


def test_no_output_is_an_error(run):
    for path in run.glob("*.ipynb"):
        outputs = [output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", [])]
        assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]


def test_each_plot_call_shows_a_picture(run):
    for path in run.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code" and cell.source.splitlines()[-1].startswith("plots.plot_"):
                html = "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)
                assert '<svg class="wide" role="img" aria-label="' in html, cell.source


def test_a_page_shows_widgets_only_as_html(run):
    """Other widgets need a kernel."""
    widgets = {}
    for path in run.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if "remove-cell" not in cell.metadata.get("tags", []):
                bundles = [output["data"] for output in cell.get("outputs", []) if "data" in output]
                assert not [kind for data in bundles for kind in data if "widget" in kind], cell.source
                classes = [
                    name for data in bundles for name in re.findall('class="(rlrepro-.*?)"', data.get("text/html", ""))
                ]
                widgets |= dict.fromkeys(classes, path.stem)
    assert widgets == {"rlrepro-calculator": "01_two_batch_sizes", "rlrepro-slide": "03_slice_sampler"}


def test_every_claim_gets_a_verdict(run, run_cli):
    rows = json.loads(run_cli("verdicts", run, "--json").stdout)
    assert [row["id"] for row in rows] == [claim.id for claim in all_claims()]
    unmeasured = {row["id"] for row in rows if row["figure"] == "–"}
    large = {"SS1", "SS2", "SS3", "SS7"}  # of buffers of the article's own size
    assert large - {"SS7"} <= unmeasured <= large  # SS7 has a figure if its premise does not hold beside other tests
    assert all("(profile full)" in row["why"] for row in rows if row["id"] in unmeasured)
    untested = {row["id"] for row in rows if row["verdict"] == "not testable here"} - unmeasured
    premises = "does not occur on this machine", "does not grow in proportion here"  # beside other tests, in `tiny`
    assert all(any(premise in row["why"] for premise in premises) for row in rows if row["id"] in untested)
