"""Every record is checked against the declarations of its case."""

import pytest

from rlrepro.evidence import Quantity, RecordBook, UndeclaredRecord

QUANTITIES = (Quantity("peak", "B", ("rows",), ("network",)), Quantity("fits", "yes/no"))


@pytest.fixture
def book(tmp_path):
    return RecordBook(tmp_path / "x.jsonl", case="case", profile="smoke", device="cpu", seed=0, quantities=QUANTITIES)


def test_units_come_from_the_declaration(book):
    assert book.add("peak", 3, rows=1).unit == "B" and book.add("peak", 3, rows=1, network="nature").unit == "B"
    assert book.add("fits", True).unit == "yes/no"


@pytest.mark.parametrize(
    "name, setting, message",
    [
        ("peak", {}, "declared with the keys rows and, optionally, network; found none"),
        ("peak", {"rows": 1, "colour": "red"}, "found colour, rows"),
        ("speed", {}, "speed is not declared; the declared ones are fits, peak"),
    ],
)
def test_an_undeclared_record_is_refused(book, name, setting, message):
    with pytest.raises(UndeclaredRecord, match=message):
        book.add(name, 1, **setting)
    assert not book.records and not book.path.exists()
