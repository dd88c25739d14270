"""The extra that each command needs, and the error message if it is not installed."""

import sys

import click

from rlrepro.metadata import advice

EXTRA_OF_COMMAND = {
    "book": "course",
    "carry": "course",
    "doctor": "watch",  # only for --run
    "fetch": "lab",
    "fit": "fit",
    "matrix": "lab",
    "pack": "course",
    "report": "course",
    "reproduce": "course",
    "slides": "course",
    "stability": "course",
    "verdicts": "course",
}
PYTHONS = ("3.11", "3.12")  # the course runs on these, for this reason:
BECAUSE = "tianshou 2.x needs 3.11, and torchrl 0.6.0, the oldest release in chapter 3, has no wheel for 3.13 or later"


class Commands(click.Group):
    """A group of commands. If a package is missing, the error names the extra that installs it."""

    def invoke(self, ctx: click.Context):
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            command = ctx.invoked_subcommand
            extra = EXTRA_OF_COMMAND.get(command)
            if not extra or (message := advice(f"rlrepro {command}", extra, error)) is None:
                raise
            if extra == "course" and "{}.{}".format(*sys.version_info) not in PYTHONS:
                message += f", with Python {' or '.join(PYTHONS)} ({BECAUSE})"
            raise click.ClickException(message) from None
