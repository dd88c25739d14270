"""`rlrepro reproduce`: run the notebooks one after another, and print a line about each."""

import json
import logging
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from rlrepro.course import runner
from rlrepro.lab import NoGPUError, resolve_device


def reproduce(
    only: Sequence[str], profile: str, device: str, out: Path, parameters: Mapping[str, str], folder: Path | None
) -> list[runner.Run]:
    """Run the notebooks of `folder`, by default the course's, and print a line about each.

    Raises click's UsageError for an unknown notebook, parameter or device, and ClickException if `out` can't be used.
    """
    values = {"profile": profile, **{name: _literal(value) for name, value in parameters.items()}}
    try:
        values["device"] = device if device == "cpu" else str(resolve_device(device))  # importing torch takes seconds
        notebooks = runner.find_notebooks(only, folder or runner.NOTEBOOKS)
        runner.check_parameters(notebooks, values)
    except (ValueError, NoGPUError) as error:
        raise click.UsageError(str(error)) from None
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, it ends the kernel and its processes
    runs = []
    try:
        for run in runner.run_notebooks(notebooks, out, values):
            click.echo(f"{run.name} {'failed' if run.error else 'ran'} in {run.seconds:.0f} s: {run.path}")
            runs.append(run)
    except (runner.Busy, OSError) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        logging.disable()  # otherwise, the end of the kernel is logged too
        raise
    return runs


def _literal(text: str):
    """A parameter's value: parsed as JSON if possible (3, 0.5, true, [1, 2]), otherwise the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
