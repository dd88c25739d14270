"""`rlrepro doctor`: check files, write fixes, watch a command. Each function prints, and returns the exit status."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from rlrepro.doctor.autofix import Changed, fixed_files
from rlrepro.doctor.finding import all_rules
from rlrepro.doctor.report import FORMATS, explain
from rlrepro.doctor.scan import Scan, configuration, examine

FOUND, UNREADABLE = 1, 2  # exit statuses


def explain_code(code: str) -> str:
    """A rule's page, or the list of all codes for "all". Raises UsageError for an unknown code."""
    rules = all_rules()
    if code == "all":
        return "\n".join(f"{code} {rule.title}" for code, rule in rules.items())
    if code not in rules:
        raise click.UsageError(f"no rule {code!r}; there are {', '.join(rules)}")
    return explain(rules[code])


def check(paths: Sequence[Path], select, ignore, exclude, form: str, fix: bool, yes: bool) -> int:
    """Print the findings in the files below the paths, and with `fix` write the fixes that are safe to write."""
    if fix and form != "text":
        raise click.UsageError("--fix shows a diff: use it without --format")
    try:
        settings = configuration(paths[0])
        scan = examine(
            paths,
            select=select or settings.get("select", ()),
            ignore=[*ignore, *settings.get("ignore", ())],
            exclude=[*exclude, *settings.get("exclude", ())],
        )
    except (ValueError, FileNotFoundError) as error:  # UnknownCode is a ValueError
        raise click.UsageError(str(error)) from None
    if not (scan.read or scan.left_out):
        raise click.UsageError(f"no Python file or notebook in {', '.join(map(str, paths))}")
    click.echo(FORMATS[form](scan))
    if not scan.read:
        return UNREADABLE
    if not scan.findings:
        return 0
    return write_fixes(scan, yes) if fix else FOUND


def write_fixes(scan: Scan, yes: bool) -> int:
    """Show the diff, and write it if the user agrees. Returns FOUND if a finding is left."""
    files = fixed_files(scan)
    if files:
        click.echo("\n" + "\n".join(file.diff for file in files))
    changed = {str(file.path) for file in files}
    by_hand = [finding for finding in scan.findings if finding not in scan.fixable or finding.path not in changed]
    for finding in by_hand:
        click.echo(f"not fixed automatically; fix by hand: {finding.place} {finding.code}")
    if not files:
        return FOUND
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    if not yes and not (sys.stdin.isatty() and click.confirm(f"Write these changes to {count}?")):
        click.echo(
            "nothing was written" if sys.stdin.isatty() else "nothing was written; add --yes to write the changes"
        )
        return FOUND
    for file in files:
        try:
            file.write()
        except (Changed, OSError) as error:
            raise click.ClickException(f"{error}; the files before it in the diff were written") from None
    click.echo(f"wrote {count}: run rlrepro doctor and your tests again")
    if any(b"rlrepro.fixes" in file.after for file in files):
        click.echo("some of these files now import rlrepro.fixes: add rlrepro to your project's requirements")
    return FOUND if by_hand else 0


def watch(command: Sequence[Path], select, ignore, exclude, form, fix, yes, *, seconds, trying: bool) -> int:
    """Run a command and print the measurements; with `trying`, run it again with each fix."""
    from rlrepro.doctor.live.session import watch_command

    if fix:
        raise click.UsageError("--fix shows a diff of files: use it without --run or --try")
    arguments = [str(word) for word in command]
    try:
        text, status = watch_command(arguments, select=select, ignore=ignore, form=form, seconds=seconds, trying=trying)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(text)
    return status
