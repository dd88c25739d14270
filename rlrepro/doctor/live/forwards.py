"""The largest batch that any layer saw, with gradients and without."""

from types import FunctionType

from rlrepro.doctor.live.notes import Notes, Pass
from rlrepro.doctor.live.places import places

KINDS = ("without gradients", "with gradients")
LOOKED_AT = 64  # rows that are compared


def probe_linear(notes: Notes, running):
    """For the `forward` of a Linear; `running` as in Stages."""

    def make(forward):
        import torch

        note, tracing = _noting(notes, running), torch.jit.is_tracing

        def noting(self, input):
            if not tracing():
                note(input, input.numel() // (self.in_features or 1))
            return forward(self, input)

        return _among(forward, noting)

    return make


def probe_convolution(notes: Notes, running):
    """For the `forward` of a convolution."""

    def make(forward):
        import torch

        note, tracing = _noting(notes, running), torch.jit.is_tracing

        def noting(self, input):
            if not tracing():
                note(input, input.shape[0] if input.dim() == self.weight.dim() else 1)
            return forward(self, input)

        return _among(forward, noting)

    return make


def _noting(notes, running):
    import torch

    enabled, compiling = torch.is_grad_enabled, torch.compiler.is_compiling
    passes = notes.passes

    def note(input, rows):
        """Called for each layer of each pass: nothing here may take long, unless the pass is the largest so far."""
        if compiling():
            return
        gradients = enabled()
        stage, owner = running[-1] if running else (None, None)
        if gradients and stage == "collect" and notes.gradients_while_collecting is None:
            place, own = places(owner)
            notes.gradients_while_collecting = own or place
        largest = passes.get(KINDS[gradients])
        if largest is None or rows > largest.rows:
            place, own = places(owner)
            repeated = _repeated(input) if gradients and input.grad_fn is None else 0
            passes[KINDS[gradients]] = Pass(rows, place, own, stage, repeated)
            notes.write()  # this is rare, and a process may be killed at any time

    return note


def _among(original, function):
    """The function with the original's globals, in which torch.jit.script looks up the names of the original's text."""
    return FunctionType(function.__code__, original.__globals__, function.__name__, None, function.__closure__)


def _repeated(input) -> int:
    """How many rows follow each other in which some numbers stay the same that change later on; 0 for fewer than
    LOOKED_AT."""
    rows = input.detach().reshape(-1, input.shape[-1])
    if rows.shape[0] <= LOOKED_AT:
        return 0
    stays = (rows[:LOOKED_AT] == rows[0]).all(dim=0)
    changed = (rows[:, stays] != rows[0, stays]).any(dim=1).nonzero()
    return int(changed[0]) if len(changed) else 0
