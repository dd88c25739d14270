"""What a Python process does that `rlrepro doctor --run` started: it takes notes, from its first line to its last."""

import atexit
import os
from pathlib import Path

FOLDER = "RLREPRO_DOCTOR_NOTES"  # the variable that names where notes are kept


def begin(folder: Path) -> None:
    """Watch this process, and what it forks, until they end. Notes go into the folder."""
    from rlrepro.doctor.live.libraries import install
    from rlrepro.doctor.live.notes import Notes
    from rlrepro.doctor.live.patches import Patches

    notes, patches = Notes(), Patches()
    notes.keep_in(folder)
    install(patches, notes)
    atexit.register(notes.write)
    os.register_at_fork(after_in_child=notes.renew)
    patches.when_imported("multiprocessing.util", lambda util: util.register_after_fork(notes, _write_at_exit))


def _write_at_exit(notes) -> None:
    """A child of multiprocessing ends without `atexit`."""
    from multiprocessing.util import Finalize

    Finalize(None, notes.write, exitpriority=0)
