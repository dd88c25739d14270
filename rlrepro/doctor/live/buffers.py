"""Replay buffers: how long a sample takes, and what a stored transition is made of."""

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from rlrepro.doctor.live.call_sites import places
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.notes import Buffer, Notes, Place
from rlrepro.doctor.live.timing import timed_sample

COMPARED = 8  # stored transitions, of as many as there are
FEWEST = 4  # to say anything of them
COMPUTED = ("action_value", "logits", "probs")  # as torchrl's actors name what they compute for every action
WIDE = 64  # numbers, from which a one-hot vector or a repeated table is worth a word


@dataclass(frozen=True)
class Reader:
    """How a library's buffer is read: rows that it holds, and each key with its values (rows, ...) for some rows."""

    stored: Callable
    values: Callable[..., Iterator[tuple[str, object]]]
    name: Callable = lambda buffer: type(buffer).__name__


class Origins:
    """Where in the project each buffer was made, as far as that was seen: a sample may be drawn anywhere."""

    def __init__(self):
        self._places, self._making = {}, []  # by id: a buffer need not be hashable

    def probe(self, init):
        """For the `__init__` of a buffer; that of the class above is part of it."""

        def made(buffer, *args, **kwargs):
            if any(each is buffer for each in self._making):
                return init(buffer, *args, **kwargs)
            self._making.append(buffer)
            try:
                return init(buffer, *args, **kwargs)
            finally:
                self._making = [each for each in self._making if each is not buffer]
                with suppress(TypeError):  # no weak references to it
                    weakref.finalize(buffer, self._places.pop, id(buffer), None).atexit = False
                    place = places()[1]
                    self._places[id(buffer)] = place, "" if place is None else f" of {place}"

        return made

    def of(self, buffer) -> tuple[Place | None, str]:
        """The place, and how it is told."""
        return self._places.get(id(buffer), (None, ""))


def probe_sample(notes: Notes, reader: Reader, clocks: Clocks, origins: Origins):
    """For the `sample` of a buffer. A sample within a sample is part of it."""
    inside = []

    def make(sample):
        def sampled(self, *args, **kwargs):
            if inside:
                return sample(self, *args, **kwargs)
            buffer, rows = _buffer(notes, reader, origins, self)
            inside.append(self)
            start = time.perf_counter()
            try:
                result = timed_sample(clocks, sample, self, *args, **kwargs)
            finally:
                inside.pop()
            if buffer is not None and 0 < (batch := _batch(self, *args, **kwargs)) < rows:
                buffer.sampled(batch, rows, time.perf_counter() - start)
                notes.write_now_and_then()
            return result

        return sampled

    return make


def _batch(holder, batch_size=None, *args, **kwargs) -> int:
    """How many rows a sample is asked for; 0 for all of them, or where that is not said."""
    asked = getattr(holder, "_batch_size", None) if batch_size is None else batch_size
    return asked if isinstance(asked, int) else 0


def _buffer(notes, reader, origins, holder) -> tuple[Buffer | None, int]:
    """What is noted of this kind of buffer; a watch never fails where a buffer is unlike those that it knows."""
    try:
        made, told = origins.of(holder)
        rows, name = reader.stored(holder), reader.name(holder) + told
        if name not in notes.buffers:
            place, own = places()
            notes.buffers[name] = Buffer(made or own, place)
        buffer = notes.buffers[name]
        if rows >= max(FEWEST, 2 * buffer.described_at):
            buffer.described_at, buffer.bytes, buffer.alike = rows, {}, {}
            for key, values in reader.values(holder, _spread(rows)):
                _describe(buffer, key, values)
        return buffer, rows
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError, NotImplementedError):
        return None, 0


def _spread(rows: int) -> list[int]:
    """Some of so many rows, from the first to the last."""
    count = min(COMPARED, rows)
    return [place * (rows - 1) // (count - 1) for place in range(count)]


def _describe(buffer: Buffer, key: str, values) -> None:
    values = _array(values)
    if values is None or not len(values):
        return
    buffer.bytes[key] = buffer.bytes.get(key, 0) + values[0].nbytes
    if values[0].size < WIDE:
        return
    flat = values.reshape(len(values), -1)
    width = values.shape[-1]
    nonzero = (values != 0).reshape(-1, width)
    if width >= WIDE and (nonzero.sum(axis=1) == 1).all() and (values.reshape(-1, width)[nonzero] == 1).all():
        buffer.alike[key] = "one-hot"
    elif key.split(".")[-1] in COMPUTED:
        buffer.alike[key] = "computed by a network"
    elif (flat == flat[0]).all() and (flat[0] != flat[0, 0]).any():
        buffer.alike[key] = "the same in each transition"


def _array(values):
    """As NumPy, wherever it is; None for what is no array."""
    import numpy as np

    if hasattr(values, "detach"):
        values = values.detach().cpu().contiguous()
        values = values.view(dtype=_plain(values)).numpy()
    values = np.asarray(values)
    return values if values.dtype != object and values.ndim else None


def _plain(tensor):
    import torch

    return torch.int16 if tensor.dtype == torch.bfloat16 else tensor.dtype
