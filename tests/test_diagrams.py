"""The drawings agree with their descriptions; the tests count, and look at no picture."""

from itertools import pairwise

import pytest

from rlrepro.course.diagrams import _schedule, actions_block, cores_over_time, ppo_update, ring_buffer
from rlrepro.course.memory_diagrams import (
    CHECKPOINTS,
    EVERY,
    GRADIENTS,
    LAYERS,
    NO_GRADIENTS,
    caching_allocator,
    fake_tensor,
    live_by_moment,
    live_layers,
)

MODES = (NO_GRADIENTS, GRADIENTS, CHECKPOINTS)
DRAWINGS = (ppo_update, cores_over_time, actions_block, caching_allocator, fake_tensor)


@pytest.mark.parametrize("draw", [*DRAWINGS, lambda: ring_buffer(10), lambda: live_layers(*MODES)])
def test_each_has_a_text_description(draw):
    figure = draw()
    assert len(figure.alt()) > 100 and "<svg" in figure.html()


def test_the_ring_is_the_one_of_the_chapter():
    description = ring_buffer(10, capacity=8, episode=4).alt()
    assert "place 2" in description
    assert "episode 0: 2 steps, cut; episode 1: 4 steps; episode 2: 2 steps, not ended" in description


def test_a_training_with_one_thread_never_waits_and_one_with_four_does():
    slots, finished = _schedule(4, processes=4, threads=1, steps=40)
    assert finished == 40 and all(working for *_, working in slots)
    slots, fewer = _schedule(4, processes=4, threads=4, steps=40)
    work = sum(working for *_, working in slots)
    assert fewer < finished and work < len(slots) == 160
    assert 4 * fewer <= work <= 4 * (fewer + 4)  # an operation is four steps of work, however it is split


def test_two_layers_live_without_gradients_all_with_them_and_fewer_with_checkpoints():
    peak_layers = {mode: max(map(len, live_by_moment(mode))) for mode in MODES}
    assert peak_layers[NO_GRADIENTS] == 2 < peak_layers[CHECKPOINTS] < peak_layers[GRADIENTS] == LAYERS + 1
    computing = [moment for moment in live_by_moment(CHECKPOINTS) if "computed" in moment.values()]
    assert len(computing) == 2 * LAYERS + (LAYERS // EVERY) * (EVERY - 1)  # forward, backward, and once more in between
    for mode in (GRADIENTS, CHECKPOINTS):
        for before, after in pairwise(live_by_moment(mode)):
            not_computed = {layer for layer, role in after.items() if role != "computed"}
            assert not_computed <= {*before}  # a layer doesn't appear from nowhere
