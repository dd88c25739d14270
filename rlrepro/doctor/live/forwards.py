"""The largest batch that any layer saw, with gradients and without."""

from types import FunctionType

from rlrepro.doctor.live.call_sites import places
from rlrepro.doctor.live.notes import Notes, Pass

KINDS = ("without gradients", "with gradients")
WHOLE_STAGES = ("preprocess", "advantages")  # in which a rollout has several dimensions
VALUES = "values"  # the stage in which RLlib computes those of a whole train batch
COLLECTS_WITHOUT = "tianshou"  # the library whose collecting is known not to need gradients
FEW = 64  # rows


def probe_linear(notes: Notes, running):
    """For the `forward` of a Linear; `running` as in Stages. It is by far the most called, so that its function is
    written out: nothing here may take long, unless the pass is the largest so far."""

    def make(forward):
        compiling, tracing, enabled, seen = _state()
        note = _noting(notes, running, pairs=True)

        def noting(self, input):
            if compiling():  # first: whatever a compiled function reads, it is compiled for
                return forward(self, input)
            if not tracing():
                try:
                    gradients = enabled()
                    rows = input.numel() // (self.in_features or 1)
                    if rows > seen[gradients] or (gradients and "collect" in running.everywhere):
                        note(input, rows, gradients)
                        seen[gradients] = max(rows, seen[gradients])
                except Exception:  # of a tensor that is batched, symbolic, nested, or none
                    pass
            return forward(self, input)

        return _among(forward, noting)

    return make


def probe_convolution(notes: Notes, running):
    """For the `forward` of a convolution."""

    def make(forward):
        compiling, tracing, enabled, seen = _state()
        note = _noting(notes, running, pairs=False)

        def noting(self, input, *args, **kwargs):
            if compiling():
                return forward(self, input, *args, **kwargs)
            if not tracing():
                try:
                    gradients = enabled()
                    rows = input.shape[0] if input.dim() == self.weight.dim() else 1
                    if rows > seen[gradients] or (gradients and "collect" in running.everywhere):
                        note(input, rows, gradients)
                        seen[gradients] = max(rows, seen[gradients])
                except Exception:  # as above
                    pass
            return forward(self, input, *args, **kwargs)

        return _among(forward, noting)

    return make


def _state():
    """How torch tells whether it compiles, traces, and records gradients; and the most rows so far without and with."""
    import torch

    return torch.compiler.is_compiling, torch._C._is_tracing, torch.is_grad_enabled, [0, 0]


def _among(original, function):
    """The function with the original's globals, in which torch.jit.script looks up the names of the original's text."""
    return FunctionType(function.__code__, original.__globals__, original.__name__, None, function.__closure__)


def _noting(notes, running, pairs):
    passes = notes.passes

    def note(input, rows, gradients):
        stage, owner = running.stages[-1] if running.stages else (None, None)
        if gradients and stage == "collect" and notes.gradients_while_collecting is None and _collects_without(owner):
            place, own = places(owner)
            notes.gradients_while_collecting = own or place
        kind = KINDS[gradients] + (" for values" if stage == VALUES else "")
        largest = passes.get(kind)
        if (largest is not None and rows <= largest.rows) or (stage == "collect" and not gradients):
            return  # a step in many environments is as large as there are environments
        repeated = _product(input) if pairs and gradients and input.grad_fn is None else 0
        if input.dim() > 2 and stage not in WHOLE_STAGES and not repeated:
            rows = input.shape[0]  # each of several tokens, agents or pixels
        if rows and (largest is None or rows > largest.rows):
            place, own = places(owner)
            passes[kind] = Pass(int(rows), place, own, stage, repeated)
            notes.write()  # this is rare, and a process may be killed at any time

    return note


def _collects_without(owner) -> bool:
    return type(owner).__module__.startswith(COLLECTS_WITHOUT)


def _product(input) -> int:
    """How many rows repeat each state, where the rows are all pairs of a state and an action: blocks of as many rows,
    in which some columns stay the same while the others are those of the first block. 0 where they are not."""
    rows = input.detach().reshape(-1, input.shape[-1])
    if len(rows) < 2 * FEW:
        return 0
    stays = (rows[:FEW] == rows[0]).all(dim=0)
    changed = (rows[:, stays] != rows[0, stays]).any(dim=1).nonzero()
    size = int(changed[0]) if len(changed) else 0
    if size < FEW:
        return 0
    first, second, last = rows[:size], rows[size : 2 * size], rows[-size:]
    own = (first == first[0]).all(dim=0)  # columns of the state
    pairs = all(
        (block[:, own] == block[0, own]).all() and (block[:, ~own] == first[:, ~own]).all() for block in (second, last)
    )
    return size if pairs and not own.all() else 0
