"""Overlays: where a release is installed, when it is refused, and the messages."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from importlib import metadata
from pathlib import Path

import pytest

from rlrepro.lab import Release, ReleaseUnavailable
from rlrepro.lab.overlays import install, is_installed, overlay_folder
from rlrepro.lab.wheel_check import find_damage

from .test_releases import version


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RLREPRO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def overlay():
    return install("tianshou==1.0.0")


@pytest.fixture
def no_network(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.mark.slow
def test_the_installed_release_needs_no_overlay(empty_cache):
    import tianshou

    with Release(f"tianshou=={tianshou.__version__}") as release:
        assert release.install() is None
        assert release.run(version) == tianshou.__version__
    assert not empty_cache.exists()


def test_an_overlay_that_is_damaged_is_not_passed_over(empty_cache):
    folder = overlay_folder("tianshou==1.0.0")
    folder.mkdir(parents=True)
    with pytest.raises(ReleaseUnavailable, match="damaged"):
        Release("tianshou==1.0.0").run(version)


@pytest.fixture
def copy_of(tmp_path, monkeypatch):
    """A copy of an overlay, for a test to damage."""

    def copy(requirement):
        source = install(requirement)
        monkeypatch.setenv("RLREPRO_CACHE", str(tmp_path / "cache"))
        return Path(shutil.copytree(source, overlay_folder(requirement)))

    return copy


def cut(path):
    path.write_text(path.read_text().partition("    def process_fn")[0])


def change_one_byte(path):
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))


@pytest.mark.parametrize(
    "damage, file",
    [
        (cut, "tianshou/policy/modelfree/ppo.py"),
        (change_one_byte, "tianshou/policy/modelfree/ppo.py"),
        (os.unlink, "tianshou/policy/modelfree/ppo.py"),
        (lambda path: path.write_text(""), "tianshou/policy/modelfree/added.py"),
        (os.unlink, "tianshou-1.0.0.dist-info/RECORD"),
    ],
)
def test_an_overlay_with_a_damaged_file_is_not_used(copy_of, damage, file):
    folder = copy_of("tianshou==1.0.0")
    assert install("tianshou==1.0.0") == folder
    damage(folder / file)
    named = "tianshou 1.0.0" if file.endswith("RECORD") else re.escape(str(folder / file))
    with pytest.raises(ReleaseUnavailable, match=rf"{named}.*Remove the folder {re.escape(str(folder))}"):
        Release("tianshou==1.0.0").run(version)


@pytest.mark.slow
def test_removing_a_damaged_overlay_installs_it_anew(copy_of):
    shutil.rmtree(copy_of("tianshou==1.0.0"))
    assert install("tianshou==1.0.0") == overlay_folder("tianshou==1.0.0")


def test_a_wheel_that_is_missing_beside_its_release_is_named(copy_of):
    """The environment's own tensordict would be imported in its place."""
    folder = copy_of("torchrl==0.6.0")
    tensordict = folder / "tensordict"
    tensordict.rename(folder.parent / "away")
    with pytest.raises(ReleaseUnavailable, match=rf"{re.escape(str(tensordict))}/\S+ can't be read \(No such file"):
        install("torchrl==0.6.0")
    shutil.rmtree(folder / "tensordict-0.6.2.dist-info")
    with pytest.raises(ReleaseUnavailable, match=r"tensordict 0\.6\.2 or its list of files is missing"):
        install("torchrl==0.6.0")


def test_a_full_disk_is_reported_as_such(empty_cache):
    """A limit on the size of a file makes the system refuse the write, as a full disk does."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**15, 2**15)); "
    result = subprocess.run([sys.executable, "-c", limit + INSTALL[-1]], capture_output=True, text=True)
    assert "a file could not be written. Free some space" in result.stderr and "index could not" not in result.stderr
    (pip_message,) = re.findall("pip said: (.*)", result.stderr)
    assert os.strerror(errno.EFBIG) in pip_message and "TMPDIR" in result.stderr
    assert not overlay_folder("tianshou==1.0.0").exists()


def test_a_cache_that_cannot_be_written_is_named(monkeypatch):
    monkeypatch.setenv("RLREPRO_CACHE", "/proc/nowhere")
    with pytest.raises(ReleaseUnavailable, match="RLREPRO_CACHE"):
        install("tianshou==1.0.0")


def test_without_network_and_overlay_the_error_says_what_to_do(empty_cache, no_network):
    with pytest.raises(ReleaseUnavailable) as raised:
        Release("tianshou==1.0.0").run(version)
    for part in ("tianshou==1.0.0", str(empty_cache), "python -m rlrepro fetch 'tianshou==1.0.0'", "not be reached"):
        assert part in str(raised.value)
    assert not overlay_folder("tianshou==1.0.0").exists()


def test_a_python_without_pip_is_not_blamed_on_the_network(empty_cache, tmp_path, monkeypatch):
    venv.create(tmp_path / "env", with_pip=False)
    monkeypatch.setattr("sys.executable", str(tmp_path / "env" / "bin" / "python"))
    with pytest.raises(ReleaseUnavailable, match=r"has no pip\. Install it: python -m ensurepip") as raised:
        install("tianshou==1.0.0")
    assert "could not be reached" not in str(raised.value)


@pytest.mark.slow
def test_an_installed_overlay_needs_no_network(overlay, no_network):
    assert Release("tianshou==1.0.0").run(version) == "1.0.0"


def test_a_release_that_does_not_exist_lists_those_that_do(empty_cache):
    with pytest.raises(ReleaseUnavailable, match=r"no version 99\.0.*1\.2\.0.*2\.0\.1"):
        install("tianshou==99.0")
    assert [path.suffix for path in overlay_folder("tianshou==99.0").parent.iterdir()] == [".lock"]


def test_a_file_with_another_hash_is_refused(empty_cache, monkeypatch):
    wrong = {"tianshou==1.0.0": ["tianshou==1.0.0 --hash=sha256:" + "0" * 64]}
    monkeypatch.setattr("rlrepro.lab.overlays.known_releases", lambda: wrong)
    with pytest.raises(ReleaseUnavailable, match="whose hash is not the pinned one"):
        install("tianshou==1.0.0")
    assert not overlay_folder("tianshou==1.0.0").exists()


INSTALL = [sys.executable, "-c", "from rlrepro.lab.overlays import install; print(install('tianshou==1.0.0'))"]


def test_a_killed_installation_leaves_nothing_in_place(empty_cache):
    folder = overlay_folder("tianshou==1.0.0")
    process = subprocess.Popen(INSTALL, start_new_session=True)
    while not list(folder.parent.glob(".partial-*/requirements.txt")):
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not folder.exists() and list(folder.parent.glob(".partial-*"))
    install("tianshou==1.0.0")
    assert (folder / "tianshou" / "__init__.py").exists() and not list(folder.parent.glob(".partial-*"))


@pytest.mark.slow
def test_two_at_once_install_one(empty_cache):
    processes = [subprocess.Popen(INSTALL, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {process.communicate()[0].strip() for process in processes}
    assert folders == {str(overlay_folder("tianshou==1.0.0"))} and not any(p.returncode for p in processes)


@pytest.mark.slow
def test_another_python_gets_its_own_overlay(empty_cache, tmp_path):
    python = "3.11" if sys.version_info[:2] == (3, 12) else "3.12"
    tag = f"cp{python.replace('.', '')}"
    folder = install("torchrl==0.7.0", python)  # compiled, with tensordict beside it
    assert folder == empty_cache / "overlays" / f"{tag.replace('cp', 'cpython-')}-linux-x86_64" / "torchrl-0.7.0"
    assert [f"Tag: {tag}-{tag}-" in path.read_text() for path in folder.glob("*.dist-info/WHEEL")] == [True, True]
    assert install("tianshou==1.0.0", python, tmp_path / "there").is_relative_to(tmp_path / "there")


def test_the_folder_named_for_a_python_is_the_one_where_it_looks(empty_cache):
    if sysconfig.get_platform() == "linux-x86_64":
        python = "{}.{}".format(*sys.version_info)
        assert overlay_folder("tianshou==1.0.0", python) == overlay_folder("tianshou==1.0.0")


def test_without_network_for_another_python_the_error_says_what_to_do(empty_cache, no_network):
    with pytest.raises(ReleaseUnavailable, match=r"fetch 'torchrl==0\.7\.0' --python 3\.12"):
        install("torchrl==0.7.0", "3.12")


def test_a_version_may_be_written_in_any_way(copy_of):
    assert is_installed("filelock", f"v{metadata.version('filelock')}") and not is_installed("filelock", "1.0")
    folder = copy_of("tianshou==1.0.0")
    assert find_damage(folder, [("tianshou", "v1.0")]) is None
