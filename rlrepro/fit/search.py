"""Searches for the largest size that fits."""

from collections.abc import Callable

MOST = 2**24  # rows: a plan may keep an index for each


def largest_multiple(
    peak: Callable[[int], int],
    limit: int,
    step: int,
    start: int,
    most: int | None = None,
    is_hidden: Callable[[int, int], bool] = lambda low, high: False,
) -> int | None:
    """The largest multiple of `step` whose peak is within the limit: 0 if there is none, and None if the peak stops
    growing. The search begins at `start`; a peak must not shrink as the size grows.

    Args:
        most: sizes above this one change nothing, so it is the answer if it fits
        is_hidden: whether memory grows from one size to another although the peak does not: something else is larger
            so far
    """
    ends, most = most is not None, max(1, (most or MOST) // step)

    def peak_of(count):
        return peak(count * step)

    low, high = 0, min(max(1, start // step), most)
    peak_at_low, peak_at_high, flat = 0, peak_of(high), 0
    while peak_at_high <= limit:  # grow until it no longer fits
        if high == most:
            return high * step if ends or peak_of(max(1, most // 16)) < peak_at_high else None
        slope = (peak_at_high - peak_at_low) / (high - low) if low else None
        flat += slope == 0
        if slope == 0 and flat == 2 and not ends and not is_hidden(low * step, high * step):
            return None
        guess = high + int((limit - peak_at_high) / slope * 1.02) + 1 if slope else high * (8 if flat else 2)
        low, peak_at_low, high = high, peak_at_high, min(max(guess, high + 1), most)
        peak_at_high = peak_of(high)
    tries = 0
    while high - low > 1:
        tries += 1
        if low and tries % 4:
            share = (limit - peak_at_low) / (peak_at_high - peak_at_low)
        else:
            share = 0.5 if low else min(0.5, limit / peak_at_high)
        count = min(max(low + int((high - low) * share), low + 1), high - 1)
        if (needed := peak_of(count)) <= limit:
            low, peak_at_low = count, needed
        else:
            high, peak_at_high = count, needed
    return low * step
