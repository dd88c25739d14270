"""What tests of executed notebooks share: a run, its site, and a browser."""

import os
from pathlib import Path

import pytest

from rlrepro.lab.limits import limit

RUN_SECONDS = 4500.0  # for a test that may be the first to need a run of all notebooks
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
BROWSER_SECONDS = 180.0  # to start
AXE = "axe-core@4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
NPM_SECONDS = 600.0  # the download of one package
NO_BROWSER = "no Chromium here: apt-get install chromium (or set RLREPRO_CHROMIUM to one), as the README says"


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        if "run" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(limit(RUN_SECONDS)))
            item.add_marker(pytest.mark.notebooks)
        if "visits" in item.fixturenames:  # opens every page
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: "html" not in item.fixturenames)  # the site takes longest


@pytest.fixture(scope="session")
def run(tmp_path_factory, pytestconfig):
    """The folder of a run of all notebooks on the CPU; RLREPRO_RUN names one that exists already."""
    import subprocess
    import sys

    if existing := os.environ.get("RLREPRO_RUN"):
        return Path(existing).resolve()
    out = tmp_path_factory.mktemp("run")
    profile = pytestconfig.getoption("profile")
    command = [sys.executable, "-m", "rlrepro", "reproduce", "--profile", profile, "--device", "cpu", "--out", str(out)]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr[-3000:]
    return out


@pytest.fixture(scope="session")
def html(run, tmp_path_factory, worker_id, testrun_uid):
    """The site of that run; one xdist worker builds it for all."""
    from filelock import FileLock

    from rlrepro.course.site.build import build

    temp = tmp_path_factory.getbasetemp()  # a worker's own, inside a folder that all workers share
    folder = (temp if worker_id == "master" else temp.parent) / f"book-{testrun_uid}"
    with FileLock(f"{folder}.lock"):
        output = folder / "_build" / "html"
        return output if output.exists() else build(run, folder).parent


@pytest.fixture(scope="session")
def site(html):
    """The address of the site, on its own server."""
    import threading
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=html)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def pages(html):
    """The site's own pages."""
    names = [path.relative_to(html).as_posix() for path in sorted(html.rglob("*.html"))]
    return [name for name in names if not name.startswith(("_", "scripts/"))]


@pytest.fixture(scope="module")
def browser():
    import shutil

    executable = os.environ.get("RLREPRO_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not executable:
        pytest.fail(NO_BROWSER) if os.environ.get("CI") else pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = {"executable_path": executable, "args": BROWSER_FLAGS, "timeout": limit(BROWSER_SECONDS) * 1000}
        started = playwright.chromium.launch(**options)
        yield started
        started.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The script; npm fetches it into the cache folder the first time."""
    import base64
    import hashlib
    import shutil
    import subprocess
    import tarfile

    from rlrepro.lab.overlays import cache_folder

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


@pytest.fixture(scope="session")
def visited_pages():
    return {}


@pytest.fixture(scope="module")
def visits(browser, site, pages, axe, visited_pages):
    """Each page, opened once with an empty cache, and the state of the page."""
    from .browsing import visited

    if not visited_pages:
        visited_pages.update({name: visited(browser, site, name, axe) for name in pages})
    return visited_pages
