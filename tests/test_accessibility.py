"""axe-core on every page, light and dark."""

from collections import Counter

import pytest

from rlrepro.course.site import scripts

from .test_book import open_page

AXE = {
    "package": "axe-core",
    "version": "4.14.1",
    "sha512": "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    "files": {"axe.min.js": "package/axe.min.js"},
}
SERIOUS = """() => axe.run({resultTypes: ['violations']}).then(({violations}) => violations
    .filter(v => ['serious', 'critical'].includes(v.impact))
    .flatMap(v => v.nodes.map(n => v.id + ' ' + n.target.join(' ') + ' ' + n.html.slice(0, 120))))"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_barrier(browser, site, pages, scheme):
    (axe,) = scripts._unpacked(**AXE)
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    barriers = {}
    for name in pages:
        page = open_page(context, site, name)
        page.add_script_tag(path=axe)
        if found := page.evaluate(SERIOUS):
            barriers[name] = found
        page.close()
    context.close()
    counts = Counter(each.split()[0] for found in barriers.values() for each in found)
    assert barriers == {}, counts


def test_axe_sees_a_barrier(browser):
    (axe,) = scripts._unpacked(**AXE)
    page = browser.new_page()
    page.set_content("<html lang=en><title>t</title><main><h1>h</h1><img src='data:,'></main>")
    page.add_script_tag(path=axe)
    assert page.evaluate(SERIOUS)[0].startswith("image-alt")
    page.close()
