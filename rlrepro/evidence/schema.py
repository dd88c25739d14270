"""What a case declares about its records: each quantity's unit, and the keys of its setting."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

NOT_NEGATIVE = ("B", "s", "rows", "ratio", "count")
ABOVE_ZERO = ("B", "s", "rows", "ratio")  # 0 would mean that nothing was measured, unless the quantity says otherwise


class UndeclaredRecord(ValueError):
    """A measurement whose name, unit, setting or value its case does not declare."""


@dataclass(frozen=True)
class Quantity:
    """A quantity that a case measures: `name`, `unit` (of `rlrepro.lab.UNITS`), and the keys of a record's setting.

    A record has all of `keys`, and may have any of `optional`. `zero`: bytes, seconds, rows or a ratio may be 0.
    """

    name: str
    unit: str
    keys: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    zero: bool = False

    def check(self, setting: Collection[str], value=None, unit: str | None = None) -> None:
        """Raise UndeclaredRecord if a key is missing or not declared, for another unit, and for an impossible 0."""
        missing, unknown = set(self.keys) - set(setting), set(setting) - {*self.keys, *self.optional}
        if missing or unknown:
            raise UndeclaredRecord(
                f"{self.name} is declared with the keys {', '.join(self.keys) or 'none'}"
                + (f" and, optionally, {', '.join(self.optional)}" if self.optional else "")
                + f"; found {', '.join(sorted(setting)) or 'none'}. Change the call, or the case's RECORDS"
            )
        if unit not in (None, self.unit):
            raise UndeclaredRecord(f"{self.name} is declared in {self.unit!r}; found {unit!r}")
        if value == 0 and self.unit in ABOVE_ZERO and not self.zero:
            raise UndeclaredRecord(
                f"{self.name} is in {self.unit!r} and can't be 0. If 0 is a possible result, declare it with "
                "zero=True in the case's RECORDS; otherwise measure it again"
            )


def declared(quantities: Collection[Quantity], name: str) -> Quantity:
    """The quantity of that name. Raises UndeclaredRecord if there is none."""
    for quantity in quantities:
        if quantity.name == name:
            return quantity
    names = ", ".join(sorted(quantity.name for quantity in quantities))
    raise UndeclaredRecord(f"{name} is not declared; the declared ones are {names}. Add it to the case's RECORDS")


# The RECORDS of each case, by the case's name; `rlrepro.cases` fills this in, because nothing here knows a case.
DECLARED_BY_CASE: dict[str, Callable[[], Collection[Quantity]]] = {}


def check_record(name: str, setting: Mapping, value, unit: str) -> None:
    """Raise UndeclaredRecord if a record, "case.quantity", does not match its case's declaration of that quantity. A
    quantity that is no longer declared passes, because nothing uses it."""
    case, _, name = name.partition(".")
    for quantity in DECLARED_BY_CASE.get(case, tuple)():
        if quantity.name == name:
            quantity.check(setting, value, unit)
