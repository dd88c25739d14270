"""The units of records, and how values are formatted for people. No other module formats measurements."""

from collections.abc import Callable

BYTE_STEPS = ("B", "KiB", "MiB", "GiB", "TiB")
SECOND_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
ROUNDS_UP = 0.9995  # values from here on would be rounded to the next unit


def _bytes(value: float) -> str:
    step = 0
    while abs(value) >= 1024 * ROUNDS_UP and step < len(BYTE_STEPS) - 1:
        value, step = value / 1024, step + 1
    return f"{value:,.{0 if step == 0 else 1}f} {BYTE_STEPS[step]}"


def _seconds(value: float) -> str:
    if value == 0:
        return "0 s"
    scale, name = next((pair for pair in SECOND_STEPS if abs(value) >= pair[0] * ROUNDS_UP), SECOND_STEPS[-1])
    return f"{value:,.0f} s" if abs(value) >= 1000 else f"{value / scale:.3g} {name}"


def number(value: float) -> str:
    """A number without a unit: three digits, or a whole number from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


UNITS: dict[str, Callable] = {
    "B": _bytes,
    "s": _seconds,
    "rows": lambda value: f"{value:,.0f} transitions",
    "ratio": lambda value: f"{number(value)}×",
    "exponent": lambda value: f"exponent {value:.3f}",
    "reward": lambda value: f"{value:.3g}",
    "difference": lambda value: f"{value:.2g}",
    "count": lambda value: f"{value:,.0f}",
    "yes/no": lambda value: "yes" if value else "no",
    "text": str,
    "B in turn": lambda value: f"up to {_bytes(max(value))}",
    "sizes": lambda value: " + ".join(str(size) for size in value),
}


def format_value(value, unit: str) -> str:
    """Format a measured value for people: `format_value(15_309_864, "B")` is "14.6 MiB".

    Raises ValueError for a unit that is not in `UNITS`.
    """
    if unit not in UNITS:
        raise ValueError(f"unknown unit {unit!r}; expected one of {', '.join(UNITS)}")
    return "not measured" if value is None else UNITS[unit](value)
