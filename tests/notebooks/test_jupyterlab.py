"""JupyterLab as `make lab` starts it, driven in a real Chromium: run all, sliders, progress bars, interrupt."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from rlrepro.lab.limits import limit

from ..conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.notebooks]

SECONDS = 120.0  # limit of every wait
WIDGETS = (
    "from rlrepro.course.diagrams import ring_buffer\n"
    "from rlrepro.course.widgets import slide\n"
    'slide({f"{count}": ring_buffer(count) for count in (6, 7, 8)}, "written")',
    "from rlrepro.fixes import train_many\n"
    'outcomes = train_many(lambda seed: seed, [{"seed": seed} for seed in range(3)], n_jobs=1)',
    'import time\nfrom rlrepro.lab import peak_memory\nprint("waiting")\npeak_memory(lambda: time.sleep(3600))',
    "import torch\nprint(peak_memory(lambda: torch.empty(2**20)).peak_bytes)",
)


@pytest.fixture
def folder(tmp_path):
    """A folder like a checkout, with the shortest chapter at its smallest sizes and a notebook of widgets."""
    (tmp_path / "notebooks").mkdir()
    chapter = (ROOT / "notebooks/00_start_here.ipynb").read_text()
    tiny = chapter.replace('profile = \\"smoke\\"', 'profile = \\"tiny\\"')
    assert tiny != chapter
    (tmp_path / "notebooks/00_start_here.ipynb").write_text(tiny)
    cells = [nbformat.v4.new_code_cell(source) for source in WIDGETS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}  # otherwise JupyterLab asks for one
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "notebooks/widgets.ipynb")
    return tmp_path


@pytest.fixture
def lab(folder):
    """The address of a JupyterLab that was started with the command of the Makefile."""
    (command,) = re.findall(r"^\t\$\(BIN\)/(jupyter lab .*) \$\(LAB_ARGS\)$", (ROOT / "Makefile").read_text(), re.M)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ["--allow-root", "--no-browser", f"--port={port}", "--IdentityProvider.token="]
    program, *arguments = [*shlex.split(command), *flags]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(folder / "config")}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [Path(sys.executable).with_name(program), *arguments], cwd=folder, env=environment, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: "version" in ask(address, "api"), (folder / "log").read_text)
        yield address
    finally:
        server.terminate()
        server.wait(limit(SECONDS))


def ask(address, path):
    try:
        with urllib.request.urlopen(address + path, timeout=10) as reply:
            return json.load(reply)
    except OSError:
        return {}


def until(condition, describe=str):
    """Wait until the condition holds; on a timeout, fail with the text that `describe` returns."""
    end = time.monotonic() + limit(SECONDS)
    while not condition():
        assert time.monotonic() < end, describe()
        time.sleep(0.5)


@pytest.fixture
def page(browser, lab):
    page = browser.new_page(viewport={"width": 1280, "height": 2000})
    page.set_default_timeout(limit(SECONDS) * 1000)
    yield page
    page.close()


def open_notebook(page, lab, name):
    page.goto(f"{lab}lab/tree/notebooks/{name}")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    until(lambda: any(kernel["execution_state"] == "idle" for kernel in ask(lab, "api/kernels")))


def menu(page, name, entry):
    page.get_by_role("menuitem", name=name, exact=True).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}")).first.click()


def code_cells(page, path):
    """The notebook's code cells as JupyterLab saves them now."""
    menu(page, "File", "Save Notebook$")
    until(lambda: path.read_text().rstrip().endswith("}"))  # JupyterLab empties the file before it writes
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_a_chapter_runs_from_top_to_bottom(page, lab, folder):
    path = folder / "notebooks/00_start_here.ipynb"
    open_notebook(page, lab, path.name)
    menu(page, "Run", "Run All Cells$")
    until(lambda: all(cell.execution_count for cell in code_cells(page, path)), lambda: (folder / "log").read_text())
    outputs = [output for cell in code_cells(page, path) for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert (folder / "runs/lab/00_start_here.jsonl").read_text().count('"profile":"tiny"') >= 4


def test_sliders_and_progress_bars_work_and_an_interrupt_leaves_a_usable_kernel(page, lab, folder):
    open_notebook(page, lab, "widgets.ipynb")
    menu(page, "Run", "Run All Cells$")
    page.get_by_text("waiting", exact=True).wait_for()
    assert "3/3" in page.locator(".jp-Notebook .widget-hbox").last.inner_text()  # the progress bar

    seen = {page.locator(".plot:visible").inner_html()}
    for _ in range(2):
        page.locator(".rlrepro-slide input").press("ArrowRight")
        until(lambda: page.locator(".plot:visible").inner_html() not in seen)
        seen.add(page.locator(".plot:visible").inner_html())

    menu(page, "Kernel", "Interrupt Kernel")
    page.get_by_text("KeyboardInterrupt").first.wait_for()
    until(lambda: last_cell_prints(page, str(4 * 2**20)))


def last_cell_prints(page, text):
    """Run the last cell: does its output come? For a moment after an error, the kernel refuses to run anything."""
    page.locator(".jp-CodeCell .cm-content").last.click()
    page.keyboard.press("Control+Enter")
    time.sleep(2)
    return page.get_by_text(text, exact=True).is_visible()
