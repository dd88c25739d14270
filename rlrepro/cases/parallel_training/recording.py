"""From what a launch returned to records."""

from rlrepro.evidence import RecordBook

UNITS = {
    "step": "s",
    "step_cpu": "s",
    "row": "s",
    "train": "s",
    "rollout": "s",
    "seconds": "s",
    "span": "s",
    "wall": "s",
    "runnable": "count",
    "taken_away": "count",
    "given_up": "count",
    "device_bytes": "B",
}


def keep_launch(book: RecordBook, found: dict, **setting) -> None:
    """A record for each of the quantities that were measured."""
    for name, unit in UNITS.items():
        if name in found:
            book.add(name, found[name], unit, **setting)
