"""What a case declares of its records: each quantity's unit, and the keys of its setting."""

from collections.abc import Collection
from dataclasses import dataclass


class UndeclaredRecord(ValueError):
    """A measurement whose name or setting its case does not declare."""


@dataclass(frozen=True)
class Quantity:
    """A quantity that a case measures: `name`, `unit` (of `rlrepro.lab.UNITS`), and what a record's setting says.

    A record has all of `keys`, and may have any of `optional`.
    """

    name: str
    unit: str
    keys: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def check(self, setting: Collection[str]) -> None:
        """Raises UndeclaredRecord if a key is missing, or is not declared."""
        missing, unknown = set(self.keys) - set(setting), set(setting) - {*self.keys, *self.optional}
        if missing or unknown:
            raise UndeclaredRecord(
                f"{self.name} is declared with the keys {', '.join(self.keys) or 'none'}"
                + (f" and perhaps {', '.join(self.optional)}" if self.optional else "")
                + f"; found {', '.join(sorted(setting)) or 'none'}. Change the call, or the case's RECORDS"
            )


def declared(quantities: Collection[Quantity], name: str) -> Quantity:
    """The quantity of that name. Raises UndeclaredRecord if there is none."""
    for quantity in quantities:
        if quantity.name == name:
            return quantity
    names = ", ".join(sorted(quantity.name for quantity in quantities))
    raise UndeclaredRecord(f"{name} is not declared; declared are {names}. Add it to the case's RECORDS")
