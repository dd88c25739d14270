"""The drawings show what they say: counted, not looked at."""

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

WAYS = (NO_GRADIENTS, GRADIENTS, CHECKPOINTS)
DRAWINGS = (ppo_update, cores_over_time, actions_block, caching_allocator, fake_tensor)


@pytest.mark.parametrize("draw", [*DRAWINGS, lambda: ring_buffer(10), lambda: live_layers(*WAYS)])
def test_each_is_told_in_words(draw):
    figure = draw()
    assert len(figure.alt()) > 100 and "<svg" in figure.html()


def test_the_ring_is_the_one_of_the_chapter():
    description = ring_buffer(10, capacity=8, episode=4).alt()
    assert "place 2" in description
    assert "episode 0: 2 steps, cut; episode 1: 4 steps; episode 2: 2 steps, not ended" in description


def test_a_training_with_one_thread_never_waits_and_one_with_four_does():
    slots, finished = _schedule(4, processes=4, threads=1, steps=40)
    assert finished == 40 and all(works for *_, works in slots)
    slots, fewer = _schedule(4, processes=4, threads=4, steps=40)
    work = sum(works for *_, works in slots)
    assert fewer < finished and work < len(slots) == 160
    assert 4 * fewer <= work <= 4 * (fewer + 4)  # an operation is four steps of work, however it is split


def test_two_layers_live_without_gradients_all_with_them_and_fewer_with_checkpoints():
    most = {way: max(map(len, live_by_moment(way))) for way in WAYS}
    assert [most[way] for way in WAYS] == [2, LAYERS + 1, most[CHECKPOINTS]] and 2 < most[CHECKPOINTS] < LAYERS + 1
    again = [moment for moment in live_by_moment(CHECKPOINTS) if "computed" in moment.values()]
    assert len(again) == 2 * LAYERS + (LAYERS // EVERY) * (EVERY - 1)  # forward, backward, and once more in between
    for way in (GRADIENTS, CHECKPOINTS):
        for before, now in pairwise(live_by_moment(way)):
            assert {layer for layer, role in now.items() if role != "computed"} <= {*before}  # nothing from nowhere
