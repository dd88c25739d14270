"""Searches for the largest size that fits."""

from collections.abc import Callable

MOST = 2**24  # rows: a plan may keep an index for each


def largest_multiple(peak: Callable[[int], int], limit: int, step: int, start: int) -> int | None:
    """The largest multiple of `step` whose peak is within the limit: 0 if there is none, and None if the peak is the
    same for 16 times as much. The search begins at `start`; a peak must not shrink as the size grows."""
    most = MOST // step

    def peak_of(count):
        return peak(count * step)

    low, high = 0, min(max(1, start // step), most)
    peak_at_low, peak_at_high, flat = 0, peak_of(high), 0
    while peak_at_high <= limit:  # grow until it no longer fits
        if high == most:
            return high * step
        slope = (peak_at_high - peak_at_low) / (high - low) if low else None
        if slope == 0 and (flat := flat + 1) == 2:
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
