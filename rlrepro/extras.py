"""Which extra each command needs, and what it says where that is not installed."""

import sys

import click
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rlrepro.metadata import requirements

OF_COMMAND = {  # the extra of each command that needs one
    "book": "course",
    "carry": "course",
    "doctor": "watch",  # for --run alone
    "fetch": "lab",
    "fit": "fit",
    "matrix": "lab",
    "reproduce": "course",
    "verdicts": "course",
}
PYTHONS = ("3.11", "3.12")  # that the course runs on, and why
BECAUSE = "tianshou 2.x needs 3.11, and torchrl 0.6.0, the oldest release in chapter 3, has no wheel for 3.13 or later"


class Commands(click.Group):
    """A group of commands. One that misses a package says which extra brings it."""

    def invoke(self, ctx: click.Context):
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            command, package = ctx.invoked_subcommand, canonicalize_name((error.name or "").partition(".")[0])
            extra = OF_COMMAND.get(command)
            if not extra or package not in {canonicalize_name(Requirement(line).name) for line in requirements(extra)}:
                raise
            told = f"rlrepro {command} needs {package}: pip install 'rlrepro[{extra}]'"
            if extra == "course" and "{}.{}".format(*sys.version_info) not in PYTHONS:
                told += f", with Python {' or '.join(PYTHONS)} ({BECAUSE})"
            raise click.ClickException(told) from None
