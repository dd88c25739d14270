"""The largest batch that any layer saw, with gradients and without."""

from types import FunctionType

from rlrepro.doctor.live.notes import Notes, Pass
from rlrepro.doctor.live.places import places

KINDS = ("without gradients", "with gradients")
WHOLE_STAGES = ("preprocess", "advantages")  # in which a rollout has several dimensions
COLLECTS_WITHOUT = "tianshou"  # the library whose collecting is known not to need gradients
FEW = 64  # rows


def probe_linear(notes: Notes, running):
    """For the `forward` of a Linear; `running` as in Stages."""
    return _probe(notes, running, lambda layer, rows: rows.numel() // (layer.in_features or 1), pairs=True)


def probe_convolution(notes: Notes, running):
    """For the `forward` of a convolution."""
    return _probe(notes, running, lambda layer, rows: rows.shape[0] if rows.dim() == layer.weight.dim() else 1)


def probe_recurrent(notes: Notes, running):
    """For the `forward` of a recurrent network: steps of all sequences."""
    return _probe(notes, running, lambda layer, rows: rows.numel() // layer.input_size)


def _probe(notes, running, count, *, pairs=False):
    def make(forward):
        import torch

        tracing, compiling = torch.jit.is_tracing, torch.compiler.is_compiling
        note = _noting(notes, running, torch.is_grad_enabled, pairs)

        def noting(self, input, *args, **kwargs):
            if not tracing() and not compiling():
                try:  # noqa: SIM105, which would take longer
                    note(input, count(self, input))
                except Exception:  # of a tensor that is batched, symbolic, nested, or none
                    pass
            return forward(self, input, *args, **kwargs)

        # with the original's globals, in which torch.jit.script looks up the names of the original's text
        return FunctionType(noting.__code__, forward.__globals__, forward.__name__, None, noting.__closure__)

    return make


def _noting(notes, running, enabled, pairs):
    passes = notes.passes

    def note(input, rows):
        """Called for each layer of each pass: nothing here may take long, unless the pass is the largest so far."""
        gradients = enabled()
        stage, owner = running.stages[-1] if running.stages else (None, None)
        if gradients and stage == "collect" and notes.gradients_while_collecting is None and _collects_without(owner):
            place, own = places(owner)
            notes.gradients_while_collecting = own or place
        largest = passes.get(KINDS[gradients])
        if (largest is not None and rows <= largest.rows) or (stage == "collect" and not gradients):
            return  # a step in many environments is as large as there are environments
        repeated = _product(input) if pairs and gradients and input.grad_fn is None else 0
        if input.dim() > 2 and stage not in WHOLE_STAGES and not repeated:
            rows = input.shape[0]  # each of several tokens, agents or pixels
        if largest is None or rows > largest.rows:
            place, own = places(owner)
            passes[KINDS[gradients]] = Pass(int(rows), place, own, stage, repeated)
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
    if size < FEW or len(rows) % size:
        return 0
    first, second, last = rows[:size], rows[size : 2 * size], rows[-size:]
    own = (first == first[0]).all(dim=0)  # columns of the state
    pairs = all(
        (block[:, own] == block[0, own]).all() and (block[:, ~own] == first[:, ~own]).all() for block in (second, last)
    )
    return size if pairs and not own.all() else 0
