"""Put the source of the book together: prose from `book/`, executed notebooks of a run, and what records add."""

import re
import shutil
from pathlib import Path

import nbformat
import yaml
from jinja2 import Environment, StrictUndefined, TemplateError

from rlrepro.course.exercises.guesses import NO_GUESS
from rlrepro.course.site.reference_tabs import reference_tabs
from rlrepro.course.site.template_context import template_context

ROOT = Path(__file__).parents[3]
BOOK = ROOT / "book"
SCRIPTS = sorted(Path(__file__).parent.glob("*.js"))
# In place of our tags, those that Jupyter Book knows; a notebook may have Jupyter Book's own tags as well.
SITE_TAGS = {"parameters": "hide-input", "settings": "hide-input", "injected-parameters": "remove-cell"}
NOT_COPIED = shutil.ignore_patterns("_build", "__pycache__")


class NothingToShow(LookupError):
    """A notebook in the table of contents was not run, or can't be read."""


def stage(run: Path, target: Path, *, results: Path, repository: str = "") -> None:
    """Write the book's source to the folder `target`, which is replaced.

    `run` has executed notebooks and their records, `results` a folder of records for each reference machine.
    `repository` is the project's address for the Colab and Binder buttons; without it, pages have no such buttons.
    Raises NothingToShow if a notebook in the table of contents is missing from the run or damaged.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(BOOK, target, ignore=NOT_COPIED)
    shutil.copy(ROOT / "CITATION.cff", target)
    _fill_in(target, template_context(run, results, repository))
    _add_readme(target, repository)
    _configure(target / "_config.yml", repository)
    pages = re.findall(r"file: (notebooks/\S+)", (target / "_toc.yml").read_text())
    missing = [page for page in pages if not (run / f"{Path(page).name}.ipynb").exists()]
    if missing:
        raise NothingToShow(f"{run} has no executed {', '.join(missing)}; `rlrepro reproduce` makes them")
    (target / "notebooks").mkdir()
    for page in pages:
        notebook = _read(run / f"{Path(page).name}.ipynb")
        make_page(notebook)
        notebook.cells += reference_tabs(Path(page).name, results)
        nbformat.write(notebook, target / f"{page}.ipynb")
    extra = target / "extra" / "scripts"
    extra.mkdir(parents=True)
    for path in SCRIPTS:
        shutil.copy(path, extra)


def _read(path: Path):
    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, nbformat.ValidationError) as error:
        raise NothingToShow(f"{path} can't be read: {str(error)[:100]}; remove it and run it again") from error


def _fill_in(target: Path, context: dict) -> None:
    """Replace each {{ expression }} in the prose."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    for path in target.rglob("*.md"):
        try:
            path.write_text(_relink(environment.from_string(path.read_text()).render(context)))
        except TemplateError as error:
            raise NothingToShow(f"{path.relative_to(target)} uses a name that does not exist: {error}") from error


def _add_readme(target: Path, repository: str) -> None:
    """Write the README as a page. Links to pages lead to the site, and links to other files to the repository."""
    text = (ROOT / "README.md").read_text().replace("](book/", "](")
    text = re.sub(r"\[([A-Z]+\.md)\]\(\1\)", rf"[\1]({repository}/blob/main/\1)" if repository else r"`\1`", text)
    shutil.copytree(ROOT / "images", target / "images")
    (target / "readme.md").write_text(_relink(text))


def _configure(path: Path, repository: str) -> None:
    config = yaml.safe_load(path.read_text())
    if repository:
        config["repository"]["url"] = repository
    else:
        config["html"] |= {"use_repository_button": False, "use_issues_button": False}
        del config["repository"], config["launch_buttons"]
    path.write_text(yaml.safe_dump(config))


def make_page(notebook) -> None:
    """Change the cells to what a page shows: set-up is folded, links are spelled as on the site, and what only a
    reader with a kernel can answer is left out."""
    for key in ("papermill", "widgets"):  # widgets load a script of 1.8 MB, and need a kernel
        notebook.metadata.pop(key, None)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": [SITE_TAGS.get(tag, tag) for tag in tags]})
        if cell.cell_type == "markdown":
            cell.source = _relink(cell.source)
        elif cell.source.rpartition("\n")[2].startswith(("check(", "lab(")):
            cell.outputs = []
        for output in cell.get("outputs", ()):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = _relink(output.data["text/markdown"].replace(NO_GUESS, ""))


def _relink(text: str) -> str:
    """Spell links as the site does: headings become slugs, and the book is one folder higher."""
    text = text.replace("](../book/", "](../")
    return re.sub(r"\]\(([\w./-]+\.ipynb)?#([^)\s]+)\)", lambda link: f"]({link[1] or ''}#{slug(link[2])})", text)


def slug(heading: str) -> str:
    """A heading's anchor on the site, the same as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.replace("-", " ").lower()).strip().replace(" ", "-")
