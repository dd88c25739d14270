"""The front page, in a real Chromium: the box, the cards, and how many clicks a new user's questions take."""

import json
from urllib.parse import urldefrag, urljoin

import pytest

from rlrepro.doctor.triage import NOT_OURS, load, triage

from ..conftest import ROOT
from .browsing import NARROW, open_page

TEXTS = [json.loads(line) for line in (ROOT / "tests" / "tracebacks.jsonl").read_text().splitlines()]
CARDS = "all => all.filter(c => c.offsetParent).map(c => c.className.match(/problem-([\\w-]+)/)[1])"
EVERY = [problem["id"] for problem in load()["problem"]]
QUESTIONS = {  # written before looking at the site: a new user's question, and a text of a page that answers it
    "My PPO in tianshou 1.0.0 runs out of memory in process_fn. What do I change?": "ChunkedPPOPolicy as PPOPolicy",
    "Training gets slower as the replay buffer fills. Is that known?": "incremental_nan_check()",
    "How do I install the fix, and does it bring torch?": "does not install torch",
    "Does the fix work with my release and my Python?": "ChunkedPPOPolicy tianshou 1.0.0",
    "How do I check my whole project for such problems?": "rlrepro doctor [OPTIONS] [PATHS]",
    "What does the linter look for, and how much does each problem cost?": "The number of threads is set too late",
    "What fits into my GPU with 8 GB?": "--gib FLOAT",
    "How much do I gain, and on what machine was that measured?": "→",
    "I have a GPU. How do my measurements get in here?": "rlrepro pack runs/latest",
    "How do I cite this?": "@software{rlrepro",
}


@pytest.fixture(scope="module")
def front(browser, site):
    context = browser.new_context(viewport={"width": NARROW, "height": 844})
    yield open_page(context, site, "index.html")
    context.close()


@pytest.mark.slow
def test_the_box_agrees_with_the_command_line(front):
    assert front.eval_on_selector_all(".problem", CARDS) == EVERY
    for sample in TEXTS:
        front.fill("#triage-text", sample["text"])
        matches = [problem["id"] for problem in triage(sample["text"])]
        assert front.eval_on_selector_all(".problem", CARDS) == matches, sample["from"]
        assert front.is_visible("#triage-none") == (not matches)
    front.fill("#triage-text", "KeyError")
    assert " ".join(front.inner_text("#triage-none").split()).startswith(NOT_OURS.replace("`", ""))
    front.fill("#triage-text", "")
    assert front.eval_on_selector_all(".problem", CARDS) == EVERY and not front.is_visible("#triage-none")


def test_the_box_works_from_a_file_and_fits_on_a_phone(browser, html):
    context = browser.new_context(viewport={"width": NARROW, "height": 844}, offline=True)
    page = context.new_page()
    page.goto((html / "index.html").as_uri())
    page.fill("#triage-text", "GPU out of memory in logp_old")
    assert page.eval_on_selector_all(".problem", CARDS) == ["logp-old"]
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    context.close()


def test_without_scripts_all_cards_are_shown_and_no_box(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site)
    assert page.locator(".problem:visible").count() == len(EVERY) and not page.is_visible("#triage-text")
    context.close()


@pytest.mark.slow
def test_ten_questions_are_answered_within_two_clicks(browser, site):
    """Clicks on links in the text of a page; the table of contents does not count."""
    context, seen, level = browser.new_context(), {}, ["index.html"]
    page = context.new_page()
    for clicks in range(3):
        links = []
        for name in level:
            page.goto(site + name)
            seen[name] = clicks, " ".join(page.inner_text("main article").split())
            hrefs = page.eval_on_selector_all("main article a[href]", "all => all.map(a => a.getAttribute('href'))")
            links += [urldefrag(urljoin(site + name, link))[0].removeprefix(site) for link in hrefs]
        pages = dict.fromkeys(link for link in links if link.endswith(".html") and "/_modules/" not in link)
        level = [link for link in pages if "://" not in link and link not in seen]
    context.close()
    for question, answer in QUESTIONS.items():
        assert any(answer in text for _, text in seen.values()), question
