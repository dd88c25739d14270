"""The front page's table of what was measured on a GPU, and the list of GPUs on other pages."""

import nbformat
import pytest
from jinja2 import Environment, StrictUndefined

from rlrepro.course.site.assemble import slug
from rlrepro.course.site.gpu_figures import FIGURES, gpus, on_gpu
from rlrepro.course.site.reference_tabs import reference_tabs
from rlrepro.course.site.template_context import template_context
from rlrepro.evidence import Records, read_records
from rlrepro.evidence.schema import DECLARED_BY_CASE, declared
from rlrepro.evidence.verdicts import MachineRun

from ..conftest import REFERENCE, ROOT

PLAIN, FACTORED = 40 * 2**30, 512 * 2**20  # bytes; not measured


@pytest.fixture(scope="module")
def template():
    return read_records(REFERENCE / "07_your_own_code.jsonl")[-1]


def measured(template, *values, device="cuda", gpu="a card"):
    """A run with records of these names, values, units and settings."""
    update = {"machine": template.machine.model_copy(update={"gpu": gpu}), "device": device, "spread": None}
    keys = ("name", "value", "unit", "setting")
    records = [template.model_copy(update=update | dict(zip(keys, record, strict=True))) for record in values]
    return MachineRun(f"{gpu}, {device}", Records(records))


def update_peak(way, value):
    setting = {"way": way, "source": "pearl", "actions": 27_000, "rows": 128}
    return "large_actions.article_update", value, "B", setting


def test_the_table_has_what_was_measured_on_each_gpu(template):
    members = "parallel_training.members_ratio", 100.0, "ratio", {"members": 256}
    plain, factored = update_peak("plain", PLAIN), update_peak("factored", FACTORED)
    large = measured(template, members, plain, factored, gpu="a large card")
    small = measured(template, factored, gpu="a small card")
    table = on_gpu([large, small])
    assert "a large card (a large card, cuda, torch" in table and "a small card (a small card, cuda, torch" in table
    assert "| measured | a large card | a small card | chapter |" in table
    ensemble, pearl = table.splitlines()[-2:]
    assert "with 256 members" in ensemble and "| **100×** | – | [4](notebooks/04_parallel_training.ipynb#" in ensemble
    assert "27,000 actions" in pearl and "| **40.0 GiB** → **512.0 MiB** | – | [5](" in pearl


def test_a_ratio_has_its_interval(template):
    run = measured(template, ("parallel_training.members_ratio", 100.0, "ratio", {"members": 1024}))
    ratio = run.records[0].model_copy(update={"spread": (90.0, 120.0)})
    assert "| **100×** (90× to 120×) |" in on_gpu([MachineRun("a run", Records([ratio]))])


def test_there_is_no_section_without_records_of_a_gpu(template):
    peaks = update_peak("plain", PLAIN), update_peak("factored", FACTORED)
    assert on_gpu([measured(template, *peaks, device="cpu")]) == ""
    assert on_gpu([measured(template, ("parallel_training.cores", 16, "count", {}))]) == ""
    assert on_gpu([]) == ""


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.record} {figure.setting}")
def test_each_line_names_declared_keys_and_a_heading(figure):
    assert figure.text.format(**figure.setting)
    case, _, name = figure.record.partition(".")
    quantity = declared(DECLARED_BY_CASE[case](), name)
    assert {*figure.setting, *figure.before, *(figure.after or {})} <= {*quantity.keys, *quantity.optional}
    chapter, _, heading = figure.section.partition("#")
    notebook = nbformat.read(ROOT / "notebooks" / f"{chapter}.ipynb", 4)
    titles = [line[3:] for cell in notebook.cells for line in cell.source.splitlines() if line.startswith("## ")]
    assert slug(heading) in map(slug, titles)


def test_other_pages_name_the_gpus_and_their_chapters(template):
    cores, *peaks = ("parallel_training.cores", 16, "count", {}), update_peak("plain", PLAIN)
    assert gpus([measured(template, cores, device="cpu")]).startswith("none yet")
    assert gpus([measured(template, cores), measured(template, *peaks)]) == "a card (chapters 4, 5)"
    assert gpus([measured(template, cores), measured(template, cores, gpu="b")]) == "a card (chapter 4); b (chapter 4)"


@pytest.mark.slow
def test_the_front_page_has_the_table_of_the_reference_records(tmp_path):
    context = template_context(tmp_path / "none", ROOT / "results", "")
    page = Environment(undefined=StrictUndefined).from_string((ROOT / "book" / "index.md").read_text())
    section = page.render(context).split("## On a GPU\n")[1].split("\n## ")[0]
    assert section.count("](notebooks/0") == len(FIGURES) + 1  # and the verdicts
    assert "## On a GPU" not in page.render(context | {"on_gpu": ""})


def test_a_tab_of_a_gpu_has_the_tables_that_only_a_gpu_has(template, tmp_path):
    setting = {"release": "0.6.0", "sampler": "episode", "stored": 5_000_000, "capacity": 600_000_000}
    sample = "slice_sampler.sample", 0.25, "s", setting | {"storage": "cuda"}
    run = {"way": "gpu", "processes": 4, "threads": "one"}
    step, held = (
        (f"parallel_training.{name}", 2**31, unit, run) for name, unit in (("step", "s"), ("device_bytes", "B"))
    )
    chapters = {
        "03_slice_sampler": ((sample,), "on the GPU | – | 250 ms"),
        "04_parallel_training": ((step, held), "2.0 GiB |"),
    }
    for chapter, (values, cell) in chapters.items():
        for device in ("cpu", "cuda"):
            path = tmp_path / device / f"{chapter}.jsonl"
            path.parent.mkdir(exist_ok=True)
            records = measured(template, *values, device=device).records
            path.write_text("".join(record.model_dump_json() + "\n" for record in records))
        (tabs,) = reference_tabs(chapter, tmp_path)
        on_cpu, on_card = tabs.source.split("{tab-item} ")[1:]
        assert cell in on_card and cell not in on_cpu
