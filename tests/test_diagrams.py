"""The drawings show what they say: counted, not looked at."""

import pytest

from rlrepro.course.diagrams import _schedule, actions_block, cores_over_time, ppo_update, ring_buffer


@pytest.mark.parametrize("draw", [ppo_update, cores_over_time, actions_block, lambda: ring_buffer(10)])
def test_each_is_told_in_words(draw):
    figure = draw()
    assert len(figure.alt()) > 100 and figure.png().startswith(b"\x89PNG")


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
