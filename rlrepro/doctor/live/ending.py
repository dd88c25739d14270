"""End a watched process as Ctrl-C does, but without a traceback, and note what was cut short."""

import os
import signal
import time

from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.stages import Running
from rlrepro.doctor.live.threads import children

SIGNAL = signal.SIGRTMIN + 5 if hasattr(signal, "SIGRTMIN") else None  # nobody else's; macOS has no such signals
HEAD_START = 0.5  # seconds in which children take their notes, before a parent may end them
STATUS = 128 + signal.SIGINT  # as a shell gives it for Ctrl-C


class Ended(SystemExit, KeyboardInterrupt):
    """What Ctrl-C raises, for whoever catches that; if nobody does, Python exits without a word."""


def listen(notes: Notes) -> None:
    """From now on SIGNAL does to this process what Ctrl-C would do: nothing if that is ignored, and the program's own
    handler is called if it has one."""
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
