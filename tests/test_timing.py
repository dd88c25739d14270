import time

import pytest

from rlrepro.lab import compare

timing = pytest.mark.timing


@timing
def test_measures_the_ratio():
    comparison = compare(lambda: time.sleep(0.006), lambda: time.sleep(0.002), repeats=5)
    assert 2 < comparison.ratio < 4
    assert comparison.low <= comparison.ratio <= comparison.high
    assert len(comparison.a_seconds) == len(comparison.b_seconds) == 5


def test_takes_turns_so_that_drift_hits_both():
    calls = []
    compare(lambda: calls.append("a"), lambda: calls.append("b"), repeats=4, min_seconds=0)
    assert "".join(calls[-8:]) == "abbaabba"


@timing
def test_a_machine_that_slows_down_does_not_change_the_ratio():
    seconds = iter(range(1, 100))

    def slower_and_slower():
        time.sleep(next(seconds) / 4000)

    assert 0.6 < compare(slower_and_slower, slower_and_slower, repeats=8, min_seconds=0).ratio < 1.6


def test_rejects_no_repeats():
    with pytest.raises(ValueError, match="at least 1"):
        compare(int, int, repeats=0)
