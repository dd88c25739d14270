"""How hard each exercise is and how long it takes, as the authors estimate it, for lesson plans and slides."""

import tomllib
from functools import cache
from pathlib import Path


@cache
def effort() -> dict[str, tuple[str, int]]:
    """(difficulty, minutes) by the number of the exercise, such as "3.1"."""
    entries = tomllib.loads(Path(__file__).with_name("effort.toml").read_text())
    return {number: tuple(entry) for number, entry in entries.items()}


def effort_table() -> str:
    """A table for the page of lesson plans: a row for each chapter, its exercises with their minutes."""
    lines = ["| chapter | easy | medium | hard | minutes in all |", "|---|---|---|---|---:|"]
    for chapter in dict.fromkeys(number.split(".")[0] for number in effort()):
        efforts = {number: entry for number, entry in effort().items() if number.split(".")[0] == chapter}
        by_level = [
            ", ".join(
                f"{number} ({minutes} min)" for number, (rating, minutes) in efforts.items() if rating == difficulty
            )
            for difficulty in ("easy", "medium", "hard")
        ]
        lines.append(f"| {chapter} | {' | '.join(by_level)} | {sum(minutes for _, minutes in efforts.values())} |")
    return "\n".join(lines)
