"""The largest batch that passed through any layer, with gradients and without."""

from types import FunctionType

from rlrepro.doctor.live.call_sites import places
from rlrepro.doctor.live.notes import Notes, Pass

KINDS = ("without gradients", "with gradients")
WHOLE_STAGES = ("preprocess", "advantages")  # in which a rollout has several dimensions
VALUES = "values"  # the stage in which RLlib computes the values of a whole train batch
COLLECTS_WITHOUT = "tianshou"  # the library that is known to collect without needing gradients
MIN_ROWS = 64  # per state, from which repeated states matter


def probe_linear(notes: Notes, running):
    """For the `forward` of a Linear; `running` as in Stages. It is called by far the most often, so its code is written
    out: nothing here may take long, unless the pass is the largest so far."""

    def make(forward):
        compiling, tracing, enabled, max_rows = _state()
        note = _noting(notes, running, pairs=True)

        def noting(self, input):
            if compiling():  # first: torch.compile guards on everything that a compiled function reads
                return forward(self, input)
            if not tracing():
                try:
                    gradients = enabled()
                    rows = input.numel() // (self.in_features or 1)
                    if rows > max_rows[gradients] or (gradients and "collect" in running.everywhere):
                        note(input, rows, gradients)
                        max_rows[gradients] = max(rows, max_rows[gradients])
                except Exception:  # the input is a batched, symbolic or nested tensor, or not a tensor
                    pass
            return forward(self, input)

        return _with_globals_of(forward, noting)

    return make


def probe_convolution(notes: Notes, running):
    """For the `forward` of a convolution."""

    def make(forward):
        compiling, tracing, enabled, max_rows = _state()
        note = _noting(notes, running, pairs=False)

        def noting(self, input, *args, **kwargs):
            if compiling():
                return forward(self, input, *args, **kwargs)
            if not tracing():
                try:
                    gradients = enabled()
                    rows = input.shape[0] if input.dim() == self.weight.dim() else 1
                    if rows > max_rows[gradients] or (gradients and "collect" in running.everywhere):
                        note(input, rows, gradients)
                        max_rows[gradients] = max(rows, max_rows[gradients])
                except Exception:  # as above
                    pass
            return forward(self, input, *args, **kwargs)

        return _with_globals_of(forward, noting)

    return make


def _state():
    """Functions that return whether torch compiles, traces and records gradients, and the most rows so far without and
    with gradients."""
    import torch

    return torch.compiler.is_compiling, torch._C._is_tracing, torch.is_grad_enabled, [0, 0]


def _with_globals_of(original, function):
    """The function with the original's globals, where torch.jit.script looks up the names in the original's source."""
    return FunctionType(function.__code__, original.__globals__, original.__name__, None, function.__closure__)


def _noting(notes, running, pairs):
    passes = notes.passes

    def note(input, rows, gradients):
        stage, owner = running.stages[-1] if running.stages else (None, None)
        if gradients and stage == "collect" and notes.gradients_while_collecting is None and _collects_without(owner):
            place, own_place = places(owner)
            notes.gradients_while_collecting = own_place or place
        kind = KINDS[gradients] + (" for values" if stage == VALUES else "")
        largest = passes.get(kind)
        if (largest is not None and rows <= largest.rows) or (stage == "collect" and not gradients):
            return  # a step in many environments has a row per environment
        repeated = _rows_per_state(input) if pairs and gradients and input.grad_fn is None else 0
        if input.dim() > 2 and stage not in WHOLE_STAGES and not repeated:
            rows = input.shape[0]  # of several tokens, agents or pixels each
        if rows and (largest is None or rows > largest.rows):
            place, own_place = places(owner)
            passes[kind] = Pass(int(rows), place, own_place, stage, repeated)
            notes.write()  # this is rare, and a process may be killed at any time

    return note


def _collects_without(owner) -> bool:
    return type(owner).__module__.startswith(COLLECTS_WITHOUT)


def _rows_per_state(input) -> int:
    """How many rows repeat each state if the rows are all pairs of a state and an action, otherwise 0. Pairs come in
    blocks of that many rows: the columns of the state are constant in a block, the others are those of the first."""
    rows = input.detach().reshape(-1, input.shape[-1])
    if len(rows) < 2 * MIN_ROWS:
        return 0
    constant = (rows[:MIN_ROWS] == rows[0]).all(dim=0)
    changed = (rows[:, constant] != rows[0, constant]).any(dim=1).nonzero()
    size = int(changed[0]) if len(changed) else 0
    if size < MIN_ROWS:
        return 0
    first, second, last = rows[:size], rows[size : 2 * size], rows[-size:]
    state = (first == first[0]).all(dim=0)  # mask of the state's columns
    are_pairs = all(
        (block[:, state] == block[0, state]).all() and (block[:, ~state] == first[:, ~state]).all()
        for block in (second, last)
    )
    return size if are_pairs and not state.all() else 0
