"""axe-core on every page, light and dark."""

import base64
import hashlib
import shutil
import subprocess
import tarfile
from collections import Counter

import pytest

from rlrepro.lab.limits import limit
from rlrepro.lab.overlays import cache_folder

from .browsing import open_page

AXE = "axe-core@4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
NPM_SECONDS = 600.0  # the download of one package
COLORS = ["color-contrast", "link-in-text-block"]  # the rules that depend on the scheme
COLORS_SETTLED = "Promise.all(document.getAnimations().map(each => each.finished))"  # some colours change gradually
SERIOUS = """options => axe.run({resultTypes: ['violations'], ...options}).then(({violations}) => violations
    .filter(v => ['serious', 'critical'].includes(v.impact))
    .flatMap(v => v.nodes.map(n => v.id + ' ' + n.target.join(' ') + ' ' + n.html.slice(0, 120))))"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The script; npm fetches it into the cache folder the first time."""
    script = cache_folder() / "scripts" / f"{AXE}.js"
    if not script.exists():
        folder = tmp_path_factory.mktemp("axe")
        command = ["npm", "pack", AXE, "--silent", "--pack-destination", folder]
        subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=limit(NPM_SECONDS))
        (archive,) = folder.glob("*.tgz")
        assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == SHA512
        with tarfile.open(archive) as packed:
            packed.extract("package/axe.min.js", folder, filter="data")
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "package" / "axe.min.js", script)
    return script


@pytest.mark.slow
def test_no_page_has_a_serious_barrier(axe, browser, site, pages):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    barriers = {}
    for name in pages:
        page = open_page(context, site, name, until="load")
        page.add_script_tag(path=axe)
        barriers[name, "light"] = page.evaluate(SERIOUS, {})
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        page.evaluate(COLORS_SETTLED)
        barriers[name, "dark"] = page.evaluate(SERIOUS, {"runOnly": COLORS})
        page.close()
    context.close()
    counts = Counter(violation.split()[0] for violations in barriers.values() for violation in violations)
    assert not counts, {key: violations for key, violations in barriers.items() if violations}


@pytest.mark.slow
def test_axe_sees_a_barrier(axe, browser):
    page = browser.new_page()
    page.set_content("<html lang=en><title>t</title><main><h1>h</h1><img src='data:,'></main>")
    page.add_script_tag(path=axe)
    assert page.evaluate(SERIOUS, {})[0].startswith("image-alt")
    page.close()
