"""What the probes cost: each is timed around a function that does nothing, once in a process."""

from time import perf_counter

from rlrepro.doctor.live.clocks import Clocks, Costs
from rlrepro.doctor.live.forwards import probe_linear
from rlrepro.doctor.live.notes import Notes
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.stages import Running
from rlrepro.doctor.live.timing import probe_module

CALLS, TIMES = 200, 5


def calibrate() -> None:
    """Measure Costs, in some milliseconds."""
    import torch

    notes = Notes()
    clocks = Clocks(notes, [], [0])
    bare = _seconds(_nothing, None)
    module = probe_module(clocks, Patches())(_nothing)
    Costs.call = max(0.0, _seconds(module, None) - bare)
    clocks.clock.inside = True
    Costs.nested = max(0.0, _seconds(module, None) - bare)
    layer, rows = _Layer(), torch.empty(2, 2)
    linear = probe_linear(notes, Running(), [0])(_nothing_of)
    linear(layer, rows)  # the largest so far
    Costs.linear = max(0.0, _seconds(linear, layer, rows) - _seconds(_nothing_of, layer, rows))


class _Layer:
    in_features = 2


def _nothing(layer):
    pass


def _nothing_of(layer, rows):
    pass


def _seconds(function, *args) -> float:
    """Of a call: the shortest of a few times."""

    def once():
        start = perf_counter()
        for _ in range(CALLS):
            function(*args)
        return (perf_counter() - start) / CALLS

    return min(once() for _ in range(TIMES))
