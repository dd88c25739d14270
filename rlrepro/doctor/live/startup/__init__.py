"""Watch a Python process that `rlrepro doctor --run` started, from its first line to its last."""

import atexit
import os
from contextlib import suppress
from pathlib import Path


def begin(folder: Path) -> None:
    """Watch this process and the processes that it forks until they end. Notes go into the folder."""
    from rlrepro.doctor.live.ending import listen
    from rlrepro.doctor.live.libraries import install
    from rlrepro.doctor.live.notes import Notes
    from rlrepro.doctor.live.patches import Patches

    notes, patches = Notes(), Patches()
    notes.keep_in(folder)
    reset_probes = install(patches, notes)
    listen(notes)
    _mark_watched(folder)
    atexit.register(notes.write)

    def begin_in_fork():
        notes.renew()
        reset_probes()
        _mark_watched(folder)

    os.register_at_fork(after_in_child=begin_in_fork)
    patches.when_imported("multiprocessing.util", lambda util: util.register_after_fork(notes, _write_at_exit))


def _mark_watched(folder: Path) -> None:
    """Create a file that shows that this process is watched, unless the command has ended and its folder is gone."""
    with suppress(OSError):
        (folder / f"{os.getpid()}.begun").touch()


def _write_at_exit(notes) -> None:
    """A child process of multiprocessing exits without running `atexit` handlers."""
    from multiprocessing.util import Finalize

    Finalize(None, notes.write, exitpriority=0)
