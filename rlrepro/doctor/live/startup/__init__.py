"""What a Python process does that `rlrepro doctor --run` started: it takes notes, from its first line to its last."""

import atexit
import os
from contextlib import suppress
from pathlib import Path


def begin(folder: Path) -> None:
    """Watch this process, and what it forks, until they end. Notes go into the folder."""
    from rlrepro.doctor.live.ending import listen
    from rlrepro.doctor.live.libraries import install
    from rlrepro.doctor.live.notes import Notes
    from rlrepro.doctor.live.patches import Patches

    notes, patches = Notes(), Patches()
    notes.keep_in(folder)
    renew = install(patches, notes)
    listen(notes)
    _say_watched(folder)
    atexit.register(notes.write)

    def begin_again():
        notes.renew()
        renew()
        _say_watched(folder)

    os.register_at_fork(after_in_child=begin_again)
    patches.when_imported("multiprocessing.util", lambda util: util.register_after_fork(notes, _write_at_exit))


def _say_watched(folder: Path) -> None:
    """Leave word that this process is watched; nothing where the command has ended and left this process behind."""
    with suppress(OSError):
        (folder / f"{os.getpid()}.begun").touch()


def _write_at_exit(notes) -> None:
    """A child of multiprocessing ends without `atexit`."""
    from multiprocessing.util import Finalize

    Finalize(None, notes.write, exitpriority=0)
