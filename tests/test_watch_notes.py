"""The notes of a watch, and the findings from them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rlrepro.doctor import watch
from rlrepro.doctor.live.buffers import Origins, Reader, _describe, probe_sample
from rlrepro.doctor.live.clocks import Clocks
from rlrepro.doctor.live.notes import Buffer, Notes, Pass, Place
from rlrepro.doctor.live.patches import Patches
from rlrepro.doctor.live.thread_stats import Crowd
from rlrepro.doctor.rules.running import diagnose, trend

from .test_watch import codes

HERE = Place(__file__, 1, "test")

PAIRS = torch.cat([torch.randn(4, 1, 3).expand(4, 100, 3), torch.randn(1, 100, 2).expand(4, 100, 2)], dim=2)


@pytest.mark.parametrize(
    "rows, expected",
    [
        (PAIRS, ["RUN004"]),
        (PAIRS.reshape(400, 5), ["RUN004"]),
        (PAIRS.reshape(400, 5)[:350], []),  # the last block is incomplete
        (PAIRS.reshape(400, 5)[torch.randperm(400)], []),
        (torch.randn(400, 5), []),
        (torch.nn.functional.one_hot(torch.arange(400) // 100).float(), []),  # sorted, and nothing but the state
        (torch.cat([torch.arange(400).ge(70)[:, None].float(), torch.randn(400, 3)], dim=1), []),  # a rare event
        (torch.zeros(400, 5), []),
    ],
)
def test_pairs_of_states_and_actions(rows, expected):
    assert codes(nn.Linear(rows.shape[-1], 2), rows) == expected


def test_tokens_are_not_rows():
    layer = nn.Linear(8, 8)
    with watch(show=False) as report:
        layer(torch.randn(64, 8))
        with torch.no_grad():
            layer(torch.randn(64, 196, 8))
    assert report.notes.passes["without gradients"].rows == 64 and not report.findings


def test_a_place_is_printed_relative_to_its_package():
    assert str(Place(nn.__file__.replace("__init__", "modules/linear"), 3, "f")) == "torch/nn/modules/linear.py:3 (f)"
    assert str(Place("/no/train.py", 4, "g")) == "train.py:4 (g)"


@pytest.mark.parametrize(
    "key, values, reason",
    [
        ("action", np.eye(300, dtype=np.int64)[:8], "one-hot"),
        ("next.action_value", np.random.default_rng(0).random((8, 300)), "computed by a network"),
        ("available_actions", np.arange(300.0)[None].repeat(8, 0), "the same in each transition"),
        ("action", np.arange(8)[:, None], None),
        ("observation", np.zeros((8, 84, 84)), None),
        ("action", np.random.default_rng(0).random((8, 300)), None),
    ],
)
def test_entries_of_a_transition_are_described(key, values, reason):
    buffer = Buffer(HERE, HERE)
    _describe(buffer, key, values)
    assert buffer.alike.get(key) == reason and buffer.bytes == {key: values[0].nbytes}
    notes = Notes()
    notes.buffers["Buffer"] = buffer
    assert findings(notes) == (["RUN007"] if reason else [])


class Growing:
    """A buffer with the interface of torchrl's that a probe uses."""

    def __init__(self, batch=None):
        self.rows, self._batch_size = 0, batch

    def sample(self, batch_size=None):
        return self.rows


@pytest.mark.parametrize("batch_size, expected", [(16, [64, 128]), (None, []), (128, []), (0, [])])
def test_only_samples_of_a_part_are_timed(batch_size, expected):
    notes, patches, buffer = Notes(), Patches(), Growing()
    reader = Reader(lambda growing: growing.rows, lambda growing, rows: ())
    patches.replace(Growing, "sample", probe_sample(notes, reader, Clocks(notes, []), Origins()))
    for buffer.rows in (64, 128):
        buffer.sample(batch_size)
    patches.undo()
    assert [rows for entry in notes.buffers.values() for times in entry.seconds.values() for rows in times] == expected


# Findings from notes.


def findings(notes, crowd=None):
    return [finding.code for finding in diagnose(notes, crowd or Crowd(cores=2), "train.py", Path(__file__).parent)]


def passes(without=None, with_gradients=None, stage=None, **options):
    notes = Notes(**options)
    for kind, rows in (("without gradients", without), ("with gradients", with_gradients)):
        if rows:
            notes.passes[kind] = Pass(rows, HERE, HERE, stage)
    return notes


@pytest.mark.parametrize(
    "notes, expected",
    [
        (passes(1000), []),  # nothing to compare with
        (passes(1000, 64), ["RUN002"]),
        (passes(500, 64), []),  # outside of a library's stage: a test, or many environments
        (passes(129, 64, stage="train"), ["RUN002"]),
        (passes(128, 64), []),
        (passes(500, 64, sizes={"max_batchsize": 256}), []),  # the last chunk may be merged
        (passes(513, 64, stage="preprocess", sizes={"max_batchsize": 256}), ["RUN002"]),
        (passes(600, 64, stage="train", sizes={"n_steps": 2048}), ["RUN002"]),
        (passes(256, 512, sizes={"max_batchsize": 256, "batch_size": 512}), ["RUN003"]),
        (passes(256, 300, sizes={"max_batchsize": 256, "batch_size": 512}), []),  # no pass was so large
        (passes(256, 300, sizes={"max_batchsize": 256, "batch_size": 256}), []),
    ],
)
def test_sizes(notes, expected):
    assert findings(notes) == expected


@pytest.mark.parametrize(
    "seconds, grows",
    [
        ({1000: [1.0], 2000: [1.1], 4000: [1.2]}, False),
        ({1000: [1.0], 10_000: [9.0], 100_000: [90.0]}, True),
        ({1000: [1.0], 1500: [2.0]}, False),  # too near each other
        ({1000: [1.0]}, False),
        ({}, False),
        ({0: [1.0], 10: [1.0], 1000: [1.0]}, False),
        ({1000: [1.0, 1.0, 500.0], 100_000: [90.0, 90.0]}, True),
        ({1000: [1.0, 1.1], 100_000: [80.0, 1.2]}, False),  # noise
        ({1000: [5.0], 10_000: [1.0], 100_000: [1.0]}, False),  # the first is slow to start
    ],
)
def test_trend(seconds, grows):
    assert (trend(seconds) is not None) is grows


def crowd(**options):
    values = {"samples": 10, "crowded_samples": 8, "runnable": 6.0, "busy_processes": 4.0}
    values |= {"seconds": 1.0, "oversubscribed_seconds": 0.5}
    return Crowd(cores=2, **values | options)


@pytest.mark.parametrize(
    "observed, expected",
    [
        (crowd(), ["RUN001"]),
        (crowd(oversubscribed_seconds=0.0), []),  # more processes than cores, each with one thread
        (crowd(seconds=10.0), []),  # for a moment
        (Crowd(cores=2), []),
    ],
)
def test_crowds(observed, expected):
    assert findings(Notes(), observed) == expected


def test_notes_come_back_as_they_were_written(tmp_path):
    notes = passes(100, 10, sizes={"batch_size": 10})
    notes.gradients_while_collecting = HERE
    notes.buffers["Buffer"] = Buffer(HERE, HERE, bytes={"obs": 4}, alike={"obs": "one-hot"})
    notes.buffers["Buffer"].sampled(32, 1001, 0.5)
    notes.buffers["Buffer"].sampled(32, 1002, 0.25)  # from about as many
    notes.buffers["Buffer"].sampled(64, 1003, 1.0)
    notes.keep_in(tmp_path)
    notes.write()
    (path,) = tmp_path.glob("*.json")
    back = Notes.read(path)
    assert back.passes == notes.passes and back.sizes == notes.sizes and back.gradients_while_collecting == HERE
    assert back.buffers["Buffer"].seconds == {32: {1001: [0.5, 0.25]}, 64: {1003: [1.0]}} and back.buffers[
        "Buffer"
    ].bytes == {"obs": 4}
    total = Notes()
    total.add(back)
    total.add(Notes.read(path))
    assert total.buffers["Buffer"].seconds[32] == {1001: [0.5, 0.25, 0.5, 0.25]} and total.passes == notes.passes
