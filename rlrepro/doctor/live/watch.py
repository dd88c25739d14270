"""with watch(): a training in this process."""

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
    """Watch what runs in this block, in this process and of its children the threads, and say what is wrong.

    Gives a Report, which is filled when the block ends, however it ends: `findings`, a list of Finding, and `str` of
    it, which is printed unless `show` is False. What raises passes through.

    Functions of torch, tianshou, Stable-Baselines3, TorchRL, RLlib and Pearl are replaced meanwhile, and put back. On a
    GPU torch.cuda.max_memory_allocated begins anew with each stage of the training. Raises RuntimeError within another
    watch.
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
