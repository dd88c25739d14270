"""The site, in a real Chromium: what a visitor gets who runs nothing."""

import re
import socket
from collections import Counter
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import nbformat
import pytest

from rlrepro.cases import all_claims
from rlrepro.course.runner import find_notebooks
from rlrepro.doctor.triage import load
from rlrepro.evidence.verdicts import judge, load_runs
from rlrepro.lab.limits import TookTooLong, limit, overrun

from .conftest import ROOT

LARGEST_PAGE = 3.0 * 10**6  # bytes, everything that it loads
NARROW = 375  # pixels, a telephone
SMALLEST = 7  # pixels, of text in a figure
PAGE_SECONDS = 60.0  # for a page to load, and for each thing that is done on it


@dataclass
class Visit:
    """What a browser saw of a page: on a wide screen, on a narrow one, and in the dark."""

    errors: list = field(default_factory=list)  # in the console
    failed: list = field(default_factory=list)
    outside: list = field(default_factory=list)  # requests to other servers
    loaded: list = field(default_factory=list)
    weight: int = 0  # bytes of all that the page loads
    text: str = ""
    without_alt: list = field(default_factory=list)
    alts: set = field(default_factory=set)
    broken_images: list = field(default_factory=list)
    formulas: int = 0
    links: list = field(default_factory=list)
    anchors: set = field(default_factory=set)
    narrow_width: int = 0
    too_wide: list = field(default_factory=list)  # elements that leave a narrow screen and can't be scrolled
    figures: list = field(default_factory=list)  # there: right edge, and the size of the smallest text, in pixels
    drawings: int = 0
    inks: list = field(default_factory=list)  # of text in figures, in the dark: how light it is, and its ground
    contrasts: list = field(default_factory=list)
    wrapped: list = field(default_factory=list)  # code of at most 80 columns that a wide screen breaks into more lines


TOO_WIDE = """all => all.filter(e => {
    if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let p = e.parentElement; p; p = p.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return false;
    return true;
}).map(e => e.tagName + ' ' + e.textContent.slice(0, 60))"""
CONTRAST = """all => all.filter(e => e.textContent.trim()).map(e => {
    const light = color => { const [r, g, b] = color.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765 };
    let ground = e;
    while (ground && /, 0\\)|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    const [ink, paper] = [getComputedStyle(e).color, getComputedStyle(ground || document.body).backgroundColor];
    return Math.abs(light(ink) - light(paper));
})"""
WRAPPED = """all => all.filter(e => {
    const fits = e.textContent.split('\\n').every(line => line.length <= 80);
    e.style.whiteSpace = 'pre';
    const wide = e.scrollWidth > e.clientWidth;
    e.style.whiteSpace = '';
    return fits && wide;
}).map(e => e.textContent.slice(0, 60))"""
FIGURES = """all => all.map(e => [e, e.getBoundingClientRect()]).filter(([_, box]) => box.width).map(([e, box]) =>
    [box.right, Math.min(...[...e.querySelectorAll('text')]
        .map(t => parseFloat(getComputedStyle(t).fontSize) * e.getScreenCTM().a))])"""
INKS = """all => all.map(e => {
    const light = color => { const [r, g, b] = color.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765 };
    let ground = e;
    while (ground && /, 0\\)|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    return [light(getComputedStyle(e).fill), light(getComputedStyle(ground || document.body).backgroundColor)];
})"""


def open_page(context, site, name, visit=None):
    page, visit = context.new_page(), visit or Visit()
    page.on("console", lambda message: visit.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("requestfailed", lambda request: visit.failed.append(request.url))
    page.on("response", lambda response: (visit.failed if response.status >= 400 else visit.loaded).append(response))
    page.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:", "blob:")) else visit.outside.append(request.url),
    )
    from playwright.sync_api import TimeoutError as PageTimeout

    allowed = limit(PAGE_SECONDS)
    page.set_default_timeout(allowed * 1000)
    try:
        page.goto(site + name, wait_until="networkidle")
    except PageTimeout as error:
        raise TookTooLong(overrun(f"loading {site + name} in the browser", allowed)) from error
    return page


def test_a_page_that_never_loads_is_named(browser, monkeypatch):
    monkeypatch.setattr(f"{__name__}.PAGE_SECONDS", 1.0)
    context = browser.new_context()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(TookTooLong, match=rf"loading {site}index.html in the browser .*limit of 1 s"):
            open_page(context, site, "index.html")
    context.close()


@pytest.fixture(scope="module")
def visits(browser, site, pages):
    """Each page opened once, with an empty cache, and what was seen."""
    found = {}
    for name in pages:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
        visit = found[name] = Visit()
        page = open_page(context, site, name, visit)
        look = page.eval_on_selector_all
        visit.text = page.inner_text("main")
        images = look("img", "all => all.map(i => [i.src.slice(0, 90), i.alt, i.complete && i.naturalWidth > 0])")
        visit.without_alt = [source for source, alt, _ in images if not alt.strip()]
        visit.alts = set(look(".plot svg", "all => all.map(e => e.getAttribute('aria-label'))"))
        visit.broken_images = [source for source, _, drawn in images if not drawn]
        visit.formulas = page.locator("main math").count()
        visit.links = look("a[href]", "all => all.map(a => a.href)")
        visit.anchors = set(look("[id]", "all => all.map(e => e.id)"))
        visit.wrapped = look(".bd-article .highlight pre", WRAPPED)
        visit.weight = sum(len(response.body()) for response in visit.loaded)
        page.set_viewport_size({"width": NARROW, "height": 844})
        visit.narrow_width = page.evaluate("document.documentElement.scrollWidth")
        visit.too_wide = look(".bd-article *", TOO_WIDE)
        visit.figures, visit.drawings = look(".plot svg.narrow", FIGURES), page.locator(".plot svg.drawing").count()
        page.set_viewport_size({"width": 1280, "height": 900})
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        visit.inks = look(".plot svg.wide text", INKS)
        visit.contrasts = look("main td, main th, main p, main label", CONTRAST)
        context.close()
    return found


def found_in(visits, what):
    return {name: getattr(visit, what) for name, visit in visits.items() if getattr(visit, what)}


def test_a_page_for_each_notebook_and_solution(pages):
    notebooks = {path.stem for path in find_notebooks()}
    assert {Path(name).stem for name in pages if name.startswith("notebooks/")} == notebooks
    assert {Path(name).stem for name in pages if name.startswith("solutions/")} == {*notebooks, "index"}
    assert {"index.html", "how_to_read.html", "instruments.html", "fixes.html", "gpu.html", "cite.html"} <= set(pages)


@pytest.mark.parametrize("what", ["errors", "failed", "outside", "without_alt", "broken_images"])
def test_pages_open_cleanly(visits, what):
    assert found_in(visits, what) == {}


def test_no_page_shows_a_traceback_or_skips_anything(visits):
    for name, visit in visits.items():
        assert len(visit.text) > 100, name
        assert "Traceback (most recent call last)" not in visit.text, name
        assert "skipped" not in visit.text.lower(), name


def test_formulas_are_set(visits):
    assert visits["notebooks/02_logp_old_oom.html"].formulas >= 1


def test_pictures_are_told_in_words(visits, run):
    """The words that a figure has in the executed notebook are those on its page."""
    for path in run.glob("0*.ipynb"):
        outputs = [each for cell in nbformat.read(path, 4).cells for each in cell.get("outputs", ())]
        shown = "".join(each.get("data", {}).get("text/html", "") for each in outputs)
        alts = {unescape(alt) for alt in re.findall('role="img" aria-label="(.*?)"', shown)}
        assert alts <= visits[f"notebooks/{path.stem}.html"].alts and all(len(alt) > 40 for alt in alts), path


def test_internal_links_resolve(visits, site):
    broken = []
    for name, visit in visits.items():
        for link in visit.links:
            target, anchor = urldefrag(urljoin(site + name, link))
            if not target.startswith(site) or "/_modules/" in target or "/_sources/" in target:
                continue
            there = visits.get(target.removeprefix(site) or "index.html")
            if there is None or (anchor and unquote(anchor) not in there.anchors):
                broken.append((name, link))
    assert broken == []


def test_the_largest_page_is_light(visits):
    heaviest = max(visits, key=lambda name: visits[name].weight)
    assert 0 < visits[heaviest].weight < LARGEST_PAGE, heaviest


def test_the_start_page_says_what_was_claimed_what_is_true_and_what_to_change(visits, run):
    text = visits["index.html"].text
    problems = load()["problem"]
    assert text.count("You see:") == text.count("Change:") == len(problems)
    assert text.count("→") == sum("before" in problem.get("proof", {}) for problem in problems) > 10
    assert len(re.findall(r"”: (supported|refuted|partly)", text)) == 16
    judgements = judge(all_claims(), load_runs(run, ROOT / "results"))
    outcomes = Counter(judgement.first[1].outcome for judgement in judgements)
    assert f"Of the {len(judgements)} claims" in text and f"{outcomes['refuted']} were refuted" in text
    assert f"{outcomes['supported']} were supported" in text and f"{outcomes['partly']} are true under" in text
    (ss4,) = (judgement for judgement in judgements if judgement.claim.id == "SS4")
    assert ss4.first[1].figure in text


def letters(text):
    """What remains of a heading in any of its spellings."""
    return re.sub("[^a-z0-9]", "", text.lower())


def test_every_claim_is_in_the_table_and_leads_to_its_cell(visits):
    visit = visits["notebooks/06_verdicts.html"]
    links = {letters(link) for link in visit.links}
    for claim in all_claims():
        assert any(link.endswith(letters(f"{claim.chapter}.html#{claim.section}")) for link in links), claim.id
        assert re.search(rf"^{claim.id}\b", visit.text, re.MULTILINE), claim.id


def test_buttons_open_each_notebook_elsewhere(visits):
    for path in find_notebooks():
        links = visits[f"notebooks/{path.stem}.html"].links
        for host in ("colab.research.google.com", "mybinder.org"):
            assert any(host in link and link.endswith(f"notebooks/{path.name}") for link in links), path


def shown(box):
    """The picture that stands under a slider."""
    return box.locator(".plot:visible").inner_html()


@pytest.mark.slow
def test_moving_each_slider_changes_its_picture(browser, site, pages):
    context, moved = browser.new_context(), 0
    for name in pages:
        if not name.startswith("notebooks/"):
            continue
        page = open_page(context, site, name)
        for box in page.locator(".rlrepro-slide").all():
            seen = [shown(box)]
            for _ in range(3):
                box.locator("input").press("ArrowRight")
                seen.append(shown(box))
            assert len(set(seen)) == 4, name
            moved += 1
        for calculator in page.locator(".rlrepro-calculator").all():
            seen = [calculator.inner_text()]
            for key in ("Home", "End"):
                calculator.locator("[name=rows]").press(key)
                seen.append(calculator.inner_text())
            assert len(set(seen)) == 3, name
            moved += 1
        page.close()
    context.close()
    assert moved >= 2


def test_the_search_finds_a_term(browser, site):
    context = browser.new_context()
    page = open_page(context, site, "search.html?q=oversubscription")
    page.wait_for_selector("#search-results li a")
    found = page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
    assert any("glossary" in link for link in found)
    context.close()


def test_a_narrow_screen_keeps_figures_and_tables_readable(visits):
    """Figures are as wide as the screen, and have text of a readable size; only drawings scroll."""
    for name, visit in visits.items():
        assert visit.narrow_width <= NARROW and visit.too_wide == [], name
        assert all(right <= NARROW and smallest >= SMALLEST for right, smallest in visit.figures), name
    assert sum(len(visit.figures) for visit in visits.values()) > 25
    assert 0 < sum(visit.drawings for visit in visits.values()) < 25


def test_a_reader_in_the_dark_gets_dark_pages(browser, site):
    for scheme in ("dark", "light"):
        context = browser.new_context(color_scheme=scheme)
        assert open_page(context, site, "index.html").evaluate("document.documentElement.dataset.theme") == scheme
        context.close()


def test_code_of_80_columns_is_not_wrapped(visits):
    assert found_in(visits, "wrapped") == {}


def test_dark_mode_keeps_figures_and_tables_readable(visits):
    for name, visit in visits.items():
        assert all(ink > ground + 0.25 or ink < 0.15 for ink, ground in visit.inks), name  # or dark on a light patch
        assert min(visit.contrasts, default=1) > 0.25, name
