"""The site in a real Chromium, for a visitor who runs nothing."""

import re
import socket
from collections import Counter
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import nbformat
import pytest

from rlrepro.cases import all_claims
from rlrepro.course.runner import find_notebooks
from rlrepro.doctor.triage import load
from rlrepro.evidence.verdicts import judge, load_runs
from rlrepro.lab.limits import TookTooLong

from ..conftest import ROOT
from . import browsing
from .browsing import NARROW, open_page

LARGEST_PAGE = 3.0 * 10**6  # bytes, everything that it loads
SMALLEST = 7  # pixels, of text in a figure


def test_a_page_that_never_loads_is_named(browser, monkeypatch):
    monkeypatch.setattr(browsing, "PAGE_SECONDS", 1.0)
    context = browser.new_context()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(TookTooLong, match=rf"loading {site}index.html in the browser .*limit of 1 s"):
            open_page(context, site, "index.html")
    context.close()


def nonempty(visits, attribute):
    return {name: getattr(visit, attribute) for name, visit in visits.items() if getattr(visit, attribute)}


def test_a_page_for_each_notebook_and_solution(pages):
    notebooks = {path.stem for path in find_notebooks()}
    assert {Path(name).stem for name in pages if name.startswith("notebooks/")} == notebooks
    assert {Path(name).stem for name in pages if name.startswith("solutions/")} == {*notebooks, "index"}
    assert {"index.html", "how_to_read.html", "instruments.html", "fixes.html", "gpu.html", "cite.html"} <= set(pages)


@pytest.mark.parametrize("attribute", ["errors", "failed", "outside", "without_alt", "broken_images"])
def test_pages_open_cleanly(visits, attribute):
    assert nonempty(visits, attribute) == {}


def test_no_page_shows_a_traceback_or_skips_anything(visits):
    for name, visit in visits.items():
        assert len(visit.text) > 100, name
        assert "Traceback (most recent call last)" not in visit.text, name
        assert "skipped" not in visit.text.lower(), name


def test_formulas_are_set(visits):
    assert visits["notebooks/02_logp_old_oom.html"].formulas >= 1


def test_pictures_are_described_in_words(visits, run):
    """A figure has the same alt text in the executed notebook and on its page."""
    for path in run.glob("0*.ipynb"):
        outputs = [output for cell in nbformat.read(path, 4).cells for output in cell.get("outputs", ())]
        html = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
        alts = {unescape(alt) for alt in re.findall('role="img" aria-label="(.*?)"', html)}
        assert alts <= visits[f"notebooks/{path.stem}.html"].alts and all(len(alt) > 40 for alt in alts), path


def test_internal_links_resolve(visits, site):
    broken = []
    for name, visit in visits.items():
        for link in visit.links:
            target, anchor = urldefrag(urljoin(site + name, link))
            if not target.startswith(site) or "/_modules/" in target or "/_sources/" in target:
                continue
            linked = visits.get(target.removeprefix(site) or "index.html")
            if linked is None or (anchor and unquote(anchor) not in linked.anchors):
                broken.append((name, link))
    assert broken == []


def test_the_largest_page_is_light(visits):
    heaviest = max(visits, key=lambda name: visits[name].weight)
    assert 0 < visits[heaviest].weight < LARGEST_PAGE, heaviest


def test_the_start_page_says_what_was_claimed_what_is_true_and_what_to_change(visits, run):
    text = visits["index.html"].text
    problems = load()["problem"]
    assert text.count("You see:") == text.count("Change:") == len(problems)
    gains = re.findall(r"Before and after:.*→", text)
    assert len(gains) == sum("before" in problem.get("proof", {}) for problem in problems) > 10
    mentioned = (ROOT / "book" / "index.md").read_text().count('{{ verdict("')
    assert len(re.findall(r"”: (supported|refuted|partly)", text)) == mentioned > 10
    judgements = judge(all_claims(), load_runs(run, ROOT / "results"))
    outcomes = Counter(judgement.first[1].outcome for judgement in judgements)
    assert f"Of the {len(judgements)} claims" in text and f"{outcomes['refuted']} were refuted" in text
    assert f"{outcomes['supported']} were supported" in text and f"{outcomes['partly']} were partly true" in text
    (ss4,) = (judgement for judgement in judgements if judgement.claim.id == "SS4")
    assert ss4.first[1].figure in text


def letters(text):
    """The letters and digits of a heading, which all of its spellings share."""
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


def visible_picture(box):
    """The picture under a slider."""
    return box.locator(".plot:visible").inner_html()


@pytest.mark.slow
def test_moving_each_slider_changes_its_picture(browser, site, pages):
    context, n_moved = browser.new_context(), 0
    for name in pages:
        if not name.startswith("notebooks/"):
            continue
        page = open_page(context, site, name)
        for box in page.locator(".rlrepro-slide").all():
            states = [visible_picture(box)]
            for _ in range(3):
                box.locator("input").press("ArrowRight")
                states.append(visible_picture(box))
            assert len(set(states)) == 4, name
            n_moved += 1
        for calculator in page.locator(".rlrepro-calculator").all():
            states = [calculator.inner_text()]
            for key in ("Home", "End"):
                calculator.locator("[name=rows]").press(key)
                states.append(calculator.inner_text())
            assert len(set(states)) == 3, name
            n_moved += 1
        page.close()
    context.close()
    assert n_moved >= 2


def test_the_search_finds_a_term(browser, site):
    context = browser.new_context()
    page = open_page(context, site, "search.html?q=oversubscription")
    page.wait_for_selector("#search-results li a")
    links = page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
    assert any("glossary" in link for link in links)
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
    assert nonempty(visits, "wrapped") == {}


def test_dark_mode_keeps_figures_and_tables_readable(visits):
    for name, visit in visits.items():
        assert all(ink > ground + 0.25 or ink < 0.15 for ink, ground in visit.inks), name  # or dark on a light patch
        assert min(visit.contrasts, default=1) > 0.25, name
