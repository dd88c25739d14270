"""Releases of a timeline, and ends of releases that are busy."""

import os
import signal
import threading
import time
from importlib.metadata import version

import pytest

from rlrepro.lab import Release, ReleaseDied, timeline

PACKAGING, CLICK = version("packaging"), version("click")
LONG = 60  # seconds that nobody waits


@pytest.mark.slow
def test_a_release_of_another_library_is_not_used():
    with Release(f"packaging=={PACKAGING}") as other:
        (point,) = timeline("click", [PACKAGING], int, running=[other])
    assert point.value is None and f"there is no version {PACKAGING}" in point.error


def test_a_malformed_version_is_the_error_of_its_point():
    good, bad = timeline("click", [CLICK, "latest"], int)
    assert good.value == 0 and "latest" in bad.error
    with pytest.raises(ValueError, match="at_once must be at least 1, found 0"):
        timeline("click", [CLICK], int, at_once=0)


@pytest.mark.slow
def test_an_interrupt_ends_a_timeline(tmp_path):
    started = tmp_path / "started"

    def interrupt():
        while not started.exists():
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        timeline("click", [CLICK], touch_and_sleep, started)
    thread.join()
    assert time.monotonic() - begin < LONG / 2


def touch_and_sleep(path):
    path.touch()
    time.sleep(LONG)


@pytest.mark.slow
def test_closing_a_release_ends_a_call_in_another_thread(tmp_path):
    release, errors = Release(f"click=={CLICK}"), []

    def call():
        try:
            release.run(touch_and_sleep, tmp_path / "started")
        except ReleaseDied as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not (tmp_path / "started").exists():
        time.sleep(0.05)
    release.close()
    thread.join(LONG / 2)
    assert not thread.is_alive() and len(errors) == 1
    assert release.run(int) == 0  # in a new process
    release.close()


def test_a_process_that_is_killed_in_the_middle_of_its_result_has_died():
    with Release(f"click=={CLICK}") as release, pytest.raises(ReleaseDied, match="was killed by signal 9"):
        release.run(half_a_message)


def half_a_message():
    """Announce a message of a thousand bytes, send a few, and end."""
    import gc
    from multiprocessing.connection import Connection

    gc.unfreeze()  # what existed before this function arrived
    (connection,) = [thing for thing in gc.get_objects() if type(thing) is Connection]
    os.write(connection.fileno(), (1000).to_bytes(4, "big") + b"half")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_path_and_a_version_contradict_each_other(tmp_path):
    with pytest.raises(ValueError, match="expected a name with path=, or 'name==version'"):
        Release(f"click=={CLICK}", path=tmp_path)


def test_a_source_folder_is_found_by_the_name_on_the_index(tmp_path):
    package = tmp_path / "two_words"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert Release("two-words", path=tmp_path).path == tmp_path.resolve()
