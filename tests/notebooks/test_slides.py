"""Slides and lesson plans, from executed notebooks."""

import re

import nbformat
import pytest
from nbformat import v4

from rlrepro.course.exercises.effort import effort, effort_table
from rlrepro.course.runner import find_notebooks
from rlrepro.course.slides import NoRun, deck, write_slides
from rlrepro.evidence import figures


def figure_output(title):
    figure, _ = figures.new_figure(title)
    return v4.new_output("display_data", {"text/html": figure._repr_html_()})


def test_a_deck_has_the_guess_each_figure_with_its_notes_the_verdicts_and_exercises():
    cells = [
        v4.new_markdown_cell("# A chapter\n\n*5 minutes.*\n\n**If it fails**, see [there](02_x.ipynb)."),
        v4.new_code_cell("hidden", outputs=[figure_output("hidden")], metadata={"tags": ["remove-cell"]}),
        v4.new_markdown_cell("## Predict\n\nHow much?"),
        v4.new_markdown_cell("## See it\n\nProse."),
        v4.new_code_cell("plot", outputs=[figure_output("First"), figure_output("Second")]),
        v4.new_markdown_cell("**Reading this plot.** It grows."),
        v4.new_markdown_cell("## Verdicts"),
        v4.new_code_cell("judge", outputs=[v4.new_output("display_data", {"text/markdown": "- refuted"})]),
        v4.new_markdown_cell("**3.1** How many?"),
    ]
    slides = deck(v4.new_notebook(cells=cells)).split("<section>")[1:]
    assert len(slides) == 6 and not any("hidden" in slide for slide in slides)
    title, guess, first, second, verdicts, exercise = slides
    assert "A chapter" in title and "If it fails" in title and "02_x.ipynb" not in title
    assert "How much?" in guess and "See it" in first and "First" in first and "Second" in second
    assert "It grows." in first and "<svg" in first
    assert "refuted" in verdicts and "Exercise 3.1: easy, about 3 minutes" in exercise


def test_each_exercise_has_its_difficulty_and_minutes():
    numbers = {number for path in find_notebooks() for number in re.findall(r'check\(\\?"(\d+\.\d+)', path.read_text())}
    assert numbers == set(effort()), "rlrepro/course/exercises/effort.toml lists every exercise"
    assert len(numbers) > 30
    assert all(level in ("easy", "medium", "hard") and 1 <= minutes <= 30 for level, minutes in effort().values())
    assert all(f"{number} (" in effort_table() for number in numbers)


def test_a_run_that_lacks_a_chapter_is_reported(tmp_path):
    with pytest.raises(NoRun, match="00_start_here"):
        write_slides(tmp_path, tmp_path / "out")


def test_decks_of_a_run_load_nothing_and_show_each_figure(run, tmp_path):
    for path in write_slides(run, tmp_path):
        page = path.read_text()
        outputs = [
            output for cell in nbformat.read(run / f"{path.stem}.ipynb", 4).cells for output in cell.get("outputs", [])
        ]
        n_figures = sum(output.get("data", {}).get("text/html", "").count("<figure class=") for output in outputs)
        assert page.count("<figure class=") == n_figures, path
        assert re.findall(r'(?:src|href)="https?:[^"]*"[^>]*(?:>|rel)', re.sub(r"<a .*?>", "", page)) == []
