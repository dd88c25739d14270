"""Searches for the largest size that fits."""

from collections.abc import Callable

MAX_SIZE = 2**24  # rows at a time: a plan may keep an index for each


def largest_multiple(
    peak: Callable[[int], int],
    limit: int,
    step: int,
    start: int,
    max_size: int | None = None,
    is_hidden: Callable[[int, int], bool] = lambda low, high: False,
) -> int | None:
    """The largest multiple of `step` whose peak is within the limit: 0 if there is none, and None if the peak stops
    growing. The search begins at `start`; the peak must not shrink as the size grows.

    Args:
        max_size: sizes above this one change nothing, so it is the result if it fits
        is_hidden: whether memory grows from one size to another although the peak does not, because something else
            is still larger
    """
    is_bounded, max_count = max_size is not None, max(1, (max_size or MAX_SIZE) // step)

    def peak_of(count):
        return peak(count * step)

    low, high = 0, min(max(1, start // step), max_count)
    peak_at_low, peak_at_high, flat_intervals = 0, peak_of(high), 0
    while peak_at_high <= limit:  # grow until it no longer fits
        if high == max_count:
            return high * step if is_bounded or peak_of(max(1, max_count // 16)) < peak_at_high else None
        slope = (peak_at_high - peak_at_low) / (high - low) if low else None
        flat_intervals += slope == 0
        if slope == 0 and flat_intervals == 2 and not is_bounded and not is_hidden(low * step, high * step):
            return None
        guess = high + int((limit - peak_at_high) / slope * 1.02) + 1 if slope else high * (8 if flat_intervals else 2)
        low, peak_at_low, high = high, peak_at_high, min(max(guess, high + 1), max_count)
        peak_at_high = peak_of(high)
    tries = 0
    while high - low > 1:
        tries += 1
        if low and tries % 4:
            fraction = (limit - peak_at_low) / (peak_at_high - peak_at_low)
        else:
            fraction = 0.5 if low else min(0.5, limit / peak_at_high)
        count = min(max(low + int((high - low) * fraction), low + 1), high - 1)
        if (peak_at_count := peak_of(count)) <= limit:
            low, peak_at_low = count, peak_at_count
        else:
            high, peak_at_high = count, peak_at_count
    return low * step
