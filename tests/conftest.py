"""What tests share: a GPU mark that says why a test is left out, and the committed reference records."""

import os
import signal
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from rlrepro.lab.limits import limit

ROOT = Path(__file__).parents[1]
REFERENCE = next(iter(sorted(ROOT.glob("results/*-cores-*"))), None)  # the tests of the base run without it
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # compiling tianshou's GAE takes longer than running it here
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and inherited by what tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _sees_gpu() -> bool:
    try:
        import torch
    except ModuleNotFoundError:  # the tests of the base run without it
        return False
    return torch.cuda.is_available()


RUN_SECONDS = 4500.0  # for a test that may be the first to need a run of all notebooks


def pytest_addoption(parser):
    parser.addoption("--profile", default="tiny", choices=("tiny", "smoke"), help="How much the notebooks measure.")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        if "run" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(limit(RUN_SECONDS)))
            item.add_marker(pytest.mark.notebooks)
        if {"releases", "visits"} & set(item.fixturenames):  # start many processes; open every page in a browser
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: "html" not in item.fixturenames)  # the site takes longest
    if not _sees_gpu():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="torch sees no GPU here"))


@pytest.fixture(scope="session")
def records():
    """The committed records of a machine."""
    from rlrepro.evidence import read_records

    return read_records(REFERENCE)


@pytest.fixture
def one_thread(monkeypatch):
    """Threads of training runs that are tested side by side would only wait for each other."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def no_processes(monkeypatch):
    """No environment is slow enough for an EnsemblePPO to choose processes, which on a busy machine it might."""
    monkeypatch.setattr("rlrepro.fixes.ensemble_ppo.envs.MESSAGE_SECONDS", float("inf"))


@pytest.fixture
def run_cli(tmp_path):
    """Call the command line in a process of its own, in an empty folder."""
    import subprocess
    import sys

    def call(*arguments, **options):
        command = [sys.executable, "-m", "rlrepro", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, **options)

    return call


@pytest.fixture(scope="session")
def uninstalled(tmp_path_factory):
    """Call a Python that rlrepro is not installed for, in the checkout: all else that is installed here lies in a
    folder, and PYTHONPATH names both, from here."""
    import subprocess
    import sys
    import sysconfig

    folder = tmp_path_factory.mktemp("uninstalled")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (folder / "site").mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "rlrepro" not in path.name:
            (folder / "site" / path.name).symlink_to(path)
    environment = os.environ | {"PYTHONPATH": f"{os.path.relpath(folder / 'site', ROOT)}:."}

    def call(*arguments):
        command = [folder / "venv" / "bin" / "python", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)

    return call


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
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
BROWSER_SECONDS = 180.0  # to start
NO_BROWSER = "no Chromium here: apt-get install chromium (or name one in RLREPRO_CHROMIUM), as the README says"


@pytest.fixture(scope="session")
def html(run, tmp_path_factory, worker_id, testrun_uid):
    """The site of that run, built by one of xdist's workers for all."""
    from filelock import FileLock

    from rlrepro.course.site.build import build

    mine = tmp_path_factory.getbasetemp()  # of a worker, it lies in a folder that all workers share
    folder = (mine if worker_id == "master" else mine.parent) / f"book-{testrun_uid}"
    with FileLock(f"{folder}.lock"):
        built = folder / "_build" / "html"
        return built if built.exists() else build(run, folder).parent


@pytest.fixture(scope="module")
def site(html):
    """Its address, on a server of its own."""
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
    found = [path.relative_to(html).as_posix() for path in sorted(html.rglob("*.html"))]
    return [name for name in found if not name.startswith(("_", "scripts/"))]


@pytest.fixture(scope="module")
def browser():
    import shutil

    found = os.environ.get("RLREPRO_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        pytest.fail(NO_BROWSER) if os.environ.get("CI") else pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = {"executable_path": found, "args": BROWSER_FLAGS, "timeout": limit(BROWSER_SECONDS) * 1000}
        started = playwright.chromium.launch(**options)
        yield started
        started.close()


@cache
def release(name: str):
    """A release, whose process serves all tests."""
    from rlrepro.lab import Release

    return Release(name)


@contextmanager
def open_releases(*versions):
    """tianshou's releases by version; their processes serve all tests."""
    yield {version: release(f"tianshou=={version}") for version in versions}
