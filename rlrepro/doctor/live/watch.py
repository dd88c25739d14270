"""with watch(): watch a training run in this process."""

import sys
from contextlib import contextmanager
from pathlib import Path

from rlrepro.doctor.live.libraries import install
from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.report import Report
from rlrepro.doctor.live.sampler import sampled

_running = []


@contextmanager
def watch(*, show: bool = True):
    """Watch this process and the threads of its children while the block runs, and report what is wrong.

    Yields a Report, which is filled in when the block ends, also if it ends with an exception. `findings` is a list of
    Finding; the report as a string is printed unless `show` is False. Exceptions are not suppressed.

    During the block, functions of torch, tianshou, Stable-Baselines3, TorchRL, RLlib and Pearl are replaced; they are
    put back at its end. On a GPU, each stage of the training resets torch.cuda.max_memory_allocated. Raises
    RuntimeError within another watch.
    """
    if _running:
        raise RuntimeError("watch can't be used within another one: end that first")
    report, notes, patches = Report(sys.argv[0], Path.cwd()), Notes(), Patches()
    _running.append(report)
    try:
        with sampled(itself=True) as report.crowd:
            install(patches, notes)
            try:
                yield report
            finally:
                patches.undo()
                notes.settle()
                report.notes = notes
    finally:
        _running.clear()
        report.close()
        if show:
            print(report)
