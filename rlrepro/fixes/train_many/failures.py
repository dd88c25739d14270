"""What a progress bar says about runs that have failed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

CHARACTERS = 200  # of a config, at most


def shorten(config: Mapping) -> str:
    """A config as one line, cut if it is long."""
    text = " ".join(repr(config).split())
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 3]}..."


def reason(error: str) -> str:
    """The line of a traceback that names the error, without further lines of its message and its notes; of another
    text, the last line."""
    lines = [line.removeprefix("  | ") for line in error.strip().splitlines()]  # of an ExceptionGroup
    frames = [index for index, line in enumerate(lines) if line.startswith('  File "')]
    if not frames:
        return lines[-1]
    return next((line for line in lines[frames[-1] :] if not line.startswith(" ")), lines[-1])


def failed_config(outcome) -> list[tuple[Mapping, str]]:
    """The config and the error of an Outcome that failed."""
    return [] if outcome.error is None else [(outcome.config, outcome.error)]


@dataclass(frozen=True)
class Report:
    """The name of a progress bar, and which configs it reports as failed when an Outcome arrives: one for `train_many`,
    any number for a caller whose runs each take several configs."""

    name: str
    failures: Callable[..., Iterable[tuple[Mapping, str]]] = failed_config

    def lines(self, outcome) -> list[str]:
        """A line for each failed config, with the reason of its error."""
        failures = self.failures(outcome)
        return [f"failed: {shorten(config)}: {reason(error)}" for config, error in failures]
