"""Sliders: with a kernel they plan again, without one they switch between pictures."""

import re
from html import escape

import pytest

from rlrepro.course.widgets import explore, plan_picture, slide

from .fit_networks import make_plan


@pytest.fixture(scope="module")
def planned():
    return make_plan("mlp", rollout=512)


@pytest.mark.slow
def test_the_picture_says_what_does_not_fit(planned):
    assert "fits on 8 GiB" in plan_picture(planned, 8).axes[0].get_title("left")
    assert "does not fit" in plan_picture(planned, 0.0005).axes[0].get_title("left")


def test_a_slider_plans_anew(planned):
    widths = []

    def make(width):
        widths.append(width)
        return planned

    box = explore(make, widths=(1, 2), rollout=256)
    *controls, picture = box.children
    by_name = {control.description: control for control in controls}
    before = picture.value
    by_name["batch_size"].value = 256
    assert picture.value != before and '<svg class="wide"' in picture.value and widths == [1]
    by_name["width"].value = 2
    assert widths == [1, 2]


def test_a_plan_that_fails_is_reported_and_the_sliders_keep_working(planned):
    def make(width):
        if width == 2:
            raise ValueError("width 2 is no network")
        return planned

    *controls, picture = explore(make, widths=(1, 2)).children
    width = next(control for control in controls if control.description == "width")
    before = picture.value
    width.value = 2
    assert picture.value != before and "width 2 is no network" in picture.value
    width.value = 1
    assert picture.value == before


def test_a_slide_is_html_with_the_first_picture_shown(planned):
    figures = {f"{size}": plan_picture(planned.at(batch_size=size), 8) for size in (16, 256)}
    page = slide(figures, "batch_size").data
    (control,) = re.findall("<input[^>]*", page)
    assert 'max="1"' in control and 'aria-valuetext="batch_size 16"' in control and "src=" not in page
    first, second = page.split("<div hidden>")
    for html, (size, figure) in zip((first, second), figures.items(), strict=True):
        assert f"<b>batch_size {size}</b>{figure.html(table=False)}" in html
        assert f'aria-label="{escape(figure.alt())}"' in html
