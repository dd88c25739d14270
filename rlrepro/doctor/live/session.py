"""`rlrepro doctor --run`: check the request, run the command, try fixes, and format the results."""

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
    """Run a command, and with `trying` run it again with each fix in its environment. Returns (text to print, exit
    status). Rules are selected as for files: by these options, and in [tool.rlrepro] of the working folder. Unless
    `form` is "text", the command's output and the results of the trials go to the error stream.

    Raises ValueError for an invalid request, such as an UnknownCode, and OSError if the command can't be started.
    """
    if not command:
        raise ValueError("pass the command after --: rlrepro doctor --run -- python train.py")
    config = configuration(Path())
    rules = chosen(select or config.get("select", ()), [*ignore, *config.get("ignore", ())], live=True)
    if not rules:
        raise ValueError("no rule for runs is selected: select one whose code starts with RUN")
    stdout = None if form == "text" else sys.stderr
    report, status = run(command, seconds=seconds, stdout=stdout)
    report.findings = [finding for finding in report.findings if finding.code in {rule.code for rule in rules}]
    remark = _try(command, report, status, seconds, stdout) if trying else ""
    if form == "text":
        text = f"\n{report}" + (f"\n{remark}" if remark else "")
    else:
        print(*(f"tried        {trial}" for trial in report.trials), remark, sep="\n", file=sys.stderr)
        options = {"run": report.as_dict()} if form == "json" else {}  # the other formats have no field for it
        text = FORMATS[form](Scan(report.findings), **options)
    return text, status or (1 if report.findings else 0)


def _try(command, report, status, seconds, stdout) -> str:
    """Fill in the report's trials, and return a remark about them."""
    if status:
        return f"tried        nothing: the command failed with status {status}"
    report.trials = try_variants(command, report, seconds=seconds, stdout=stdout)
    return CAUTION if report.trials else f"tried        {why_not(report)}"
