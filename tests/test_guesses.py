"""The reveal after a guess says what was measured, and by how much the guess was off."""

import numpy as np
import pytest

from rlrepro.course.exercises import check, reveal


@pytest.mark.parametrize(
    "guess, text",
    [
        (None, "peak: **measured 4.0 KiB**. (No guess was entered above.)"),
        (4096, "exactly that"),
        (1024, "you guessed 1.0 KiB: too low by a factor of 4"),
        (8192, "too high by a factor of 2"),
        (-1, "-1, is not a number of 0 or more"),
        ("many", "'many', is not a number of 0 or more"),
        (0, "too low by 4.0 KiB"),
        (np.int64(2048), "too low by a factor of 2"),
    ],
)
def test_a_number_is_compared_with_the_measured_one(guess, text):
    assert text in reveal(guess, 4096, "B", what="peak").data


def test_words_are_right_or_not():
    lines = reveal({"a": "x", "b": "x", "c": None}, {"a": "x", "b": "y", "c": "z"}).data.splitlines()
    assert lines[0].endswith("you said x, which is right.")
    assert lines[1].endswith("you said x, which is not what was measured.")
    assert lines[2].endswith("(No guess was entered above.)")
    assert reveal("x", {"a": "x"}).data.endswith("which is right.")
    assert reveal(5, None, "rows").data == "**measured nothing**."
    assert reveal(0, 0, "count").data.endswith("you guessed 0: exactly that.")
    assert reveal(None, {"a": "x"}).data == "- a: **measured x**. (No guess was entered above.)"


def test_a_check_names_the_missing_record_or_answer(capsys):
    check("2.1", lambda rows, max_batchsize: 1)
    check("2.1", None)
    check("3.1", lambda length: 1)
    lines = capsys.readouterr().out.splitlines()
    assert (
        "can't be checked: no record of logp_old.peak_by_chunk" in lines[0] and "Run the cells above first" in lines[0]
    )
    assert lines[1].startswith("✗ Exercise 2.1: not answered yet")
    assert "your answer could not be used: TypeError" in lines[2]
