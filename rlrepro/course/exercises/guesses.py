"""The reveal after a guess: the guess, the measured value, and by how much they differ."""

from IPython.display import Markdown

from rlrepro.lab.units import format_value, number

NO_GUESS = ". (No guess was entered above.)"


def reveal(guess, measured, unit: str = "", *, what: str = "") -> Markdown:
    """The measured value beside the guess.

    Args:
        guess: None if the reader made none; a number or a word, or a dict of them
        measured: the measured value, of the same kind
        unit: the unit of numbers, as in a record ("B", "rows", "ratio"); words have none
        what: what was measured, in a few words
    """
    if isinstance(measured, dict):
        guess = guess if isinstance(guess, dict) else dict.fromkeys(measured, guess)
        return Markdown("\n".join(f"- {_line(guess.get(name), value, unit, name)}" for name, value in measured.items()))
    return Markdown(_line(guess, measured, unit, what))


def _line(guess, measured, unit, label) -> str:
    result = (
        f"{label + ': ' if label else ''}**measured {'nothing' if measured is None else _formatted(measured, unit)}**"
    )
    guess = guess.item() if hasattr(guess, "item") else guess  # NumPy's and torch's numbers
    if guess is None or measured is None:
        return result + (NO_GUESS if guess is None else ".")
    if isinstance(measured, str):
        return f"{result}; you said {guess}, which is {'right' if guess == measured else 'not what was measured'}."
    if not isinstance(guess, int | float) or not guess >= 0:
        return f"{result}; your guess, {guess!r}, is not a number of 0 or more."
    direction = "high" if guess > measured else "low"
    if guess == measured:
        difference = "exactly that"
    elif min(guess, measured) == 0:
        difference = f"too {direction} by {_formatted(abs(guess - measured), unit)}"
    else:
        difference = f"too {direction} by a factor of {number(max(guess, measured) / min(guess, measured))}"
    return f"{result}; you guessed {_formatted(guess, unit)}: {difference}."


def _formatted(value, unit) -> str:
    return format_value(value, unit) if unit else str(value)
