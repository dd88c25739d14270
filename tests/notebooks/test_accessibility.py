"""axe-core on every page, light and dark."""

from collections import Counter

import pytest

from .browsing import barriers_of


def test_no_page_has_a_serious_barrier(visits):
    barriers = {
        (name, scheme): violations for name, visit in visits.items() for scheme, violations in visit.barriers.items()
    }
    assert {scheme for _, scheme in barriers} == {"light", "dark"}
    counts = Counter(violation.split()[0] for violations in barriers.values() for violation in violations)
    assert not counts, {key: violations for key, violations in barriers.items() if violations}


@pytest.mark.slow
@pytest.mark.parametrize(
    "body, rule",
    [
        ("<img src='data:,'>", "image-alt"),
        ("<p>black</p><p class=a>black</p><p class=a style='color: #eee'>pale</p>", "color-contrast"),
    ],
)
def test_axe_sees_a_barrier(axe, browser, body, rule):
    page = browser.new_page()
    page.set_content(f"<html lang=en><title>t</title><main><h1>h</h1>{body}</main>")
    page.add_script_tag(path=axe)
    (barrier,) = barriers_of(page)
    assert barrier.startswith(rule)
    page.close()
