"""`rlrepro slides`: a deck for each chapter of a run, with its guess, its figures and its verdicts. A deck is one file
that loads nothing; arrow keys turn the pages, and a browser can print it."""

import re
from html import escape
from pathlib import Path

import nbformat
from nbconvert.filters import markdown2html

from rlrepro.course.exercises.effort import effort
from rlrepro.course.runner import find_notebooks

NOTES = "**Reading this"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
html{{scroll-snap-type:y proximity;color-scheme:light dark}}
body{{margin:0;font:clamp(16px,2.2vmin,28px)/1.45 system-ui,sans-serif;color:#222;background:#fff}}
html[data-theme=dark] body{{color:#ced6dd;background:#14181e}}
section{{box-sizing:border-box;min-height:100vh;padding:4vmin 7vmin;scroll-snap-align:start;break-after:page;
display:flex;flex-direction:column;justify-content:center}}
section>p,section>ul{{font-size:1.5em;max-width:50em}}
h1{{font-size:2.2em}} h2{{font-size:1em;opacity:.7;margin:0 0 1em}} table{{border-collapse:collapse;font-size:.7em}}
td,th{{padding:.2em .8em;text-align:left;border-bottom:1px solid #8884}} img{{max-width:100%}}
.plot svg.wide,.plot svg.drawing{{width:auto;height:64vh;max-width:100%}} .plot p strong{{font-size:1.3em}}
</style>{slides}<script>
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
addEventListener("keydown", event => {{
  const step = {{ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1}}[event.key];
  const slides = [...document.querySelectorAll("section")];
  const current = slides.findLastIndex(slide => slide.offsetTop <= scrollY + 5);
  if (step) {{ event.preventDefault(); slides[current + step]?.scrollIntoView(); }}
}});
</script></html>"""


class NoRun(LookupError):
    """The run has no executed notebook of a chapter."""


def write_slides(run: Path, out: Path) -> list[Path]:
    """Write a deck for each chapter of the run to the folder `out`. Raises NoRun."""
    out.mkdir(parents=True, exist_ok=True)
    decks = []
    for notebook in find_notebooks():
        executed = run / notebook.name
        if not executed.exists():
            raise NoRun(f"{run} has no {notebook.name}; `rlrepro reproduce` makes it")
        target = out / f"{notebook.stem}.html"
        target.write_text(deck(nbformat.read(executed, as_version=4)))
        decks.append(target)
    return decks


def deck(notebook) -> str:
    """The slides of an executed notebook: its title, the question to guess, each figure, the verdicts, exercises."""
    cells = [cell for cell in notebook.cells if "remove-cell" not in cell.metadata.get("tags", ())]
    title, _, lead = cells[0].source.partition("\n")
    bold = next(
        (block for block in lead.split("\n\n") if block.strip().startswith("**")), lead.strip().split("\n\n")[0]
    )
    slides, heading = [f"<h1>{_html(title.strip('# '))}</h1>{_html(bold)}"], ""
    for cell, next_cell in zip(cells, [*cells[1:], None], strict=True):
        if cell.cell_type == "markdown":
            section = re.match(r"## (.*)\n*", cell.source)
            heading = section[1] if section else heading
            if heading == "Predict" and section:
                slides.append(_slide("Your guess", _html(cell.source[section.end() :])))
            if exercise := re.match(r"\*\*(\d+\.\d+)\*\* ", cell.source):
                estimate = "{}, about {} minutes".format(*effort()[exercise[1]])
                slides.append(_slide(f"Exercise {exercise[1]}: {estimate}", _html(cell.source[exercise.end() :])))
            continue
        notes = (
            _html(next_cell.source)
            if next_cell and next_cell.cell_type == "markdown" and NOTES in next_cell.source
            else ""
        )
        for output in cell.outputs:
            data = output.get("data", {})
            if '<figure class="plot">' in data.get("text/html", ""):
                folded = f"<details><summary>What to see</summary>{notes}</details>" if notes else ""
                slides.append(_slide(heading, data["text/html"] + folded))
            elif heading == "Verdicts" and "text/markdown" in data:
                slides.append(_slide(heading, _html(data["text/markdown"])))
    return PAGE.format(
        title=escape(title.strip("# ")), slides="".join(f"<section>{slide}</section>" for slide in slides)
    )


def _slide(heading: str, content: str) -> str:
    return f"<h2>{_html(heading)}</h2>{content}"


def _html(markdown: str) -> str:
    """Markdown as HTML. Links to other notebooks become plain text, since a deck is read on its own."""
    return markdown2html(re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", markdown))
