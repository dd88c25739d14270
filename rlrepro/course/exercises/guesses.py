"""The reveal after a guess: what was guessed, what was measured, and by how much they differ."""

from IPython.display import Markdown

from rlrepro.lab.units import format_value

NO_GUESS = ". (No guess was entered above.)"


def reveal(guess, measured, unit: str = "", *, what: str = "") -> Markdown:
    """The measured value beside the guess.

    guess     None where the reader made none; a number, or a word; or a dict of them
    measured  the same kind of thing
    unit      of numbers, as in a record ("B", "rows", "ratio"); words have none
    what      what was measured, in a few words
    """
    if isinstance(measured, dict):
        guess = guess if isinstance(guess, dict) else dict.fromkeys(measured, guess)
        return Markdown("\n".join(f"- {_line(guess.get(name), value, unit, name)}" for name, value in measured.items()))
    return Markdown(_line(guess, measured, unit, what))


def _line(guess, measured, unit, what) -> str:
    told = f"{what + ': ' if what else ''}**measured {'nothing' if measured is None else _shown(measured, unit)}**"
    guess = guess.item() if hasattr(guess, "item") else guess  # NumPy's and torch's numbers
    if guess is None or measured is None:
        return told + (NO_GUESS if guess is None else ".")
    if isinstance(measured, str):
        return f"{told}; you said {guess}, which is {'right' if guess == measured else 'not what was measured'}."
    if not isinstance(guess, int | float) or not guess >= 0:
        return f"{told}; your guess, {guess!r}, is no number of that kind."
    way = "much" if guess > measured else "little"
    if guess == measured:
        off = "exactly that"
    elif min(guess, measured) == 0:
        off = f"{_shown(abs(guess - measured), unit)} too {way}"
    else:
        off = f"{max(guess, measured) / min(guess, measured):.3g} times too {way}"
    return f"{told}; you guessed {_shown(guess, unit)}: {off}."


def _shown(value, unit) -> str:
    return format_value(value, unit) if unit else str(value)
