"""The command line's `rlrepro doctor --run`: what is asked, run, tried and said."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlrepro.doctor.live.command import run
from rlrepro.doctor.live.trial import CAUTION, try_variants, why_not
from rlrepro.doctor.report import FORMATS
from rlrepro.doctor.scan import Scan, chosen, configuration


def watch_command(
    command: Sequence[str],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    form: str = "text",
    seconds: float | None = None,
    trying: bool = False,
) -> tuple[str, int]:
    """Run a command, and with `trying` again with each fix in its environment: (what to print, exit status). Codes are
    selected as for files: here, and in [tool.rlrepro] of the working folder. In another form than "text", the command's
    output and what was tried go to the error stream.

    Raises ValueError for what can't be asked, UnknownCode among it, and OSError where the command can't be started.
    """
    if not command:
        raise ValueError("pass the command after --: rlrepro doctor --run -- python train.py")
    own = configuration(Path())
    rules = chosen(select or own.get("select", ()), [*ignore, *own.get("ignore", ())], live=True)
    if not rules:
        raise ValueError("no rule for runs is selected: select one whose code starts with RUN")
    stdout = None if form == "text" else sys.stderr
    report, status = run(command, seconds=seconds, stdout=stdout)
    report.findings = [each for each in report.findings if each.code in {rule.code for rule in rules}]
    said = _try(command, report, status, seconds, stdout) if trying else ""
    if form == "text":
        text = f"\n{report}" + (f"\n{said}" if said else "")
    else:
        print(*(f"tried        {each}" for each in report.trials), said, sep="\n", file=sys.stderr)
        options = {"run": report.as_dict()} if form == "json" else {}  # the other formats have no place for it
        text = FORMATS[form](Scan(report.findings), **options)
    return text, status or (1 if report.findings else 0)


def _try(command, report, status, seconds, stdout) -> str:
    """Fill the report's trials; what else is to be said of them."""
    if status:
        return f"tried        nothing: the command failed with status {status}"
    report.trials = try_variants(command, report, seconds=seconds, stdout=stdout)
    return CAUTION if report.trials else f"tried        {why_not(report)}"
