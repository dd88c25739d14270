"""Put the source of the book together: prose from `book/`, executed notebooks of a run, what records add to both."""

import re
import shutil
from pathlib import Path

import nbformat
import yaml
from jinja2 import Environment, StrictUndefined, TemplateError

from rlrepro.course.exercises.guesses import NO_GUESS
from rlrepro.course.site import reference_tabs as machines
from rlrepro.course.site import template_context as front
from rlrepro.course.site.scripts import scripts

BOOK = Path(__file__).parents[3] / "book"
HIDDEN = {"parameters": "hide-input", "settings": "hide-input", "injected-parameters": "remove-cell"}
KEEPS_RECORDS = re.compile(r"\b(book\.add|keep_\w+)\(")
FOLDED_LINES = 9  # of a cell that measures and keeps records, from which on it is folded away
KEPT_OUT = shutil.ignore_patterns("_build", "__pycache__")


class NothingToShow(LookupError):
    """A notebook of the table of contents was not run, or what is there of it can't be read."""


def stage(run: Path, target: Path, *, results: Path, repository: str = "") -> None:
    """Write the book's source to the folder `target`, which is made anew.

    `run` holds executed notebooks and their records, `results` a folder of records for each reference machine;
    `repository` is the project's address, which the Colab and Binder buttons lead to; none, and there are none.
    Raises NothingToShow where the table of contents has a notebook that the run has not, or has damaged.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(BOOK, target, ignore=KEPT_OUT)
    shutil.copy(BOOK.parent / "CITATION.cff", target)
    _fill_in(target, front.numbers(run, results, target / "figures", repository))
    _configure(target / "_config.yml", repository)
    wanted = re.findall(r"file: (notebooks/\S+)", (target / "_toc.yml").read_text())
    missing = [name for name in wanted if not (run / f"{Path(name).name}.ipynb").exists()]
    if missing:
        raise NothingToShow(f"{run} has no executed {', '.join(map(str, missing))}; `rlrepro reproduce` makes them")
    (target / "notebooks").mkdir()
    for name in wanted:
        notebook = _read(run / f"{Path(name).name}.ipynb")
        make_page(notebook)
        notebook.cells += machines.tabs(Path(name).name, results, target / "figures")
        nbformat.write(notebook, target / f"{name}.ipynb")
    extra = target / "extra" / "scripts"
    extra.mkdir(parents=True)
    for path in scripts():
        shutil.copy(path, extra)


def _read(path: Path):
    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, nbformat.ValidationError) as error:
        raise NothingToShow(f"{path} can't be read: {str(error)[:100]}; remove it, and run it again") from error


def _fill_in(target: Path, numbers: dict) -> None:
    """The prose with the numbers that it asks for as {{ name }}."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    for path in target.rglob("*.md"):
        try:
            path.write_text(_relink(environment.from_string(path.read_text()).render(numbers)))
        except TemplateError as error:
            raise NothingToShow(f"{path.relative_to(target)} asks for what is not there: {error}") from error


def _configure(path: Path, repository: str) -> None:
    config = yaml.safe_load(path.read_text())
    if repository:
        config["repository"]["url"] = repository
    else:
        config["html"] |= {"use_repository_button": False, "use_issues_button": False}
        del config["repository"], config["launch_buttons"]
    path.write_text(yaml.safe_dump(config))


def make_page(notebook) -> None:
    """Cells as a page shows them: machinery folded away, links that the site knows, words beside each picture, and
    nothing that only a reader with a kernel can answer."""
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": [HIDDEN.get(tag, tag) for tag in tags]})
        if cell.cell_type == "markdown":
            cell.source = _relink(cell.source)
        elif "\ncheck(" in cell.source:
            cell.outputs = []
        elif KEEPS_RECORDS.search(cell.source) and cell.source.count("\n") > FOLDED_LINES:
            cell.metadata.tags.append("hide-input")
        pictures = [each for each in cell.get("outputs", ()) if "image/png" in each.get("data", {})]
        if pictures:  # the site has one text for all pictures of a cell
            alts = [each.metadata.get("image/png", {}).get("alt", "") for each in pictures]
            cell.metadata["mystnb"] = {"image": {"alt": " ".join(filter(None, alts)) or "a picture"}}
        for output in cell.get("outputs", ()):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = _relink(output.data["text/markdown"].replace(NO_GUESS, ""))


def _relink(text: str) -> str:
    """Links as the site spells them: Jupyter keeps a heading, the site makes a slug of it; and the book is one folder
    higher."""
    text = text.replace("](../book/", "](../")
    return re.sub(r"\]\(([\w./-]+\.ipynb)?#([^)\s]+)\)", lambda found: f"]({found[1] or ''}#{slug(found[2])})", text)


def slug(heading: str) -> str:
    """A heading's anchor on the site, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("-", " ").lower()).strip().replace(" ", "-")
