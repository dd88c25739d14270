"""End a watched process as Ctrl-C does, but without a traceback, and note which stages were cut short."""

import os
import signal
import time

from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.stages import Running
from rlrepro.doctor.live.threads import children

SIGNAL = signal.SIGRTMIN + 5 if hasattr(signal, "SIGRTMIN") else None  # unused by others; macOS has no such signals
HEAD_START = 0.5  # seconds that children have to write their notes before a parent may end them
STATUS = 128 + signal.SIGINT  # as a shell reports it for Ctrl-C


class Ended(SystemExit, KeyboardInterrupt):
    """Is caught like the KeyboardInterrupt of Ctrl-C; if nothing catches it, Python exits without a traceback."""


def listen(notes: Notes) -> None:
    """From now on, SIGNAL has the effect of Ctrl-C on this process: nothing happens if it ignores that, and the
    program's own handler is called if it has one."""
    if SIGNAL is None:
        return

    def end(number, frame):
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            return
        notes.cut_short = list(Running.everywhere)
        notes.write()
        if children(os.getpid()):
            time.sleep(HEAD_START)
        if handler is not signal.default_int_handler:
            return handler(signal.SIGINT, frame)
        raise Ended(STATUS)

    signal.signal(SIGNAL, end)
