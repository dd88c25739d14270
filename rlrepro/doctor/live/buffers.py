"""Replay buffers: how long a sample takes, and what a stored transition consists of."""

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from rlrepro.doctor.live.call_sites import places
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.notes import Buffer, Notes, Place
from rlrepro.doctor.live.timing import timed_sample

COMPARED = 8  # stored transitions, at most
MIN_ROWS = 4  # stored transitions that a description needs
COMPUTED = ("action_value", "logits", "probs")  # as torchrl's actors name what they compute for every action
WIDE = 64  # numbers from which a one-hot vector or a repeated table is worth mentioning


@dataclass(frozen=True)
class Reader:
    """How to read a library's buffer: the number of rows, and for some rows each key with its values (rows, ...)."""

    stored: Callable
    values: Callable[..., Iterator[tuple[str, object]]]
    name: Callable = lambda buffer: type(buffer).__name__


class Origins:
    """Where in the project each buffer was created, if that was observed: samples may be drawn anywhere."""

    def __init__(self):
        self._places, self._initializing = {}, []  # by id: a buffer need not be hashable

    def probe(self, init):
        """For the `__init__` of a buffer; that of its base class is part of it."""

        def initialized(buffer, *args, **kwargs):
            if any(other is buffer for other in self._initializing):
                return init(buffer, *args, **kwargs)
            self._initializing.append(buffer)
            try:
                return init(buffer, *args, **kwargs)
            finally:
                self._initializing = [other for other in self._initializing if other is not buffer]
                with suppress(TypeError):  # it supports no weak references
                    weakref.finalize(buffer, self._places.pop, id(buffer), None).atexit = False
                    place = places()[1]
                    self._places[id(buffer)] = place, "" if place is None else f" of {place}"

        return initialized

    def of(self, buffer) -> tuple[Place | None, str]:
        """The place, and the suffix that names it."""
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
                notes.write_if_due()
            return result

        return sampled

    return make


def _batch(holder, batch_size=None, *args, **kwargs) -> int:
    """How many rows a sample is to have; 0 for all of them, or if that is unknown."""
    size = getattr(holder, "_batch_size", None) if batch_size is None else batch_size
    return size if isinstance(size, int) else 0


def _buffer(notes, reader, origins, holder) -> tuple[Buffer | None, int]:
    """The notes on this kind of buffer, and its number of rows. An unusual buffer never ends the watched run."""
    try:
        origin, suffix = origins.of(holder)
        rows, name = reader.stored(holder), reader.name(holder) + suffix
        if name not in notes.buffers:
            place, own_place = places()
            notes.buffers[name] = Buffer(origin or own_place, place)
        buffer = notes.buffers[name]
        if rows >= max(MIN_ROWS, 2 * buffer.described_at):
            buffer.described_at, buffer.bytes, buffer.alike = rows, {}, {}
            for key, values in reader.values(holder, _spread(rows)):
                _describe(buffer, key, values)
        return buffer, rows
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError, NotImplementedError):
        return None, 0


def _spread(rows: int) -> list[int]:
    """Evenly spaced row indices, from the first to the last."""
    count = min(COMPARED, rows)
    return [index * (rows - 1) // (count - 1) for index in range(count)]


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
    """The values as a NumPy array, from any device; None if they are not an array."""
    import numpy as np

    if hasattr(values, "detach"):
        values = values.detach().cpu().contiguous()
        values = values.view(dtype=_plain(values)).numpy()
    values = np.asarray(values)
    return values if values.dtype != object and values.ndim else None


def _plain(tensor):
    import torch

    return torch.int16 if tensor.dtype == torch.bfloat16 else tensor.dtype
