"""The commands that run the course, show it, and judge its records."""

import sys
from pathlib import Path

import click

PROFILES = ("tiny", "smoke", "full")
LATEST = Path("runs/latest")
PATH, FOLDER = click.Path(path_type=Path), click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("only", nargs=-1)
@click.option("--profile", type=click.Choice(PROFILES), default="smoke", help="Scale of the measurements.")
@click.option("--device", default="auto", help="auto, cpu, cuda or cuda:N.")
@click.option("--out", type=PATH, default=LATEST, show_default=True, help="Folder for the results.")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    type=(str, str),
    multiple=True,
    metavar="NAME VALUE",
    help="Set a notebook parameter.",
)
@click.option("--notebooks", type=PATH, help="Folder that holds the notebooks.")
def reproduce(only, profile, device, out, parameters, notebooks):
    """Run the notebooks and print the verdicts. ONLY selects notebooks by number or name."""
    from rlrepro.course.command import reproduce

    if reserved := {name for name, _ in parameters} & {"profile", "device", "out", "run"}:
        raise click.UsageError(
            f"{', '.join(sorted(reserved))}: use the option of that name instead of -p (for run, --out)"
        )
    runs = reproduce(only, profile, device, out, dict(parameters), notebooks)
    complete = _print_verdicts(out, False, {run.name for run in runs if not run.error})
    failed = [run for run in runs if run.error]
    for run in failed:
        click.secho(f"{run.name} failed at {run.error}", fg="red", err=True)
        click.echo(f"  partial notebook: {run.path}", err=True)
    sys.exit(1 if failed or not complete else 0)


@click.command()
@click.argument("folder", type=PATH, default=LATEST)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def verdicts(folder, as_json):
    """Print the verdicts of a run. FOLDER (by default, runs/latest) holds its records. Exits with 1 if a record can't
    be read."""
    sys.exit(0 if _print_verdicts(folder, as_json) else 1)


@click.command(short_help="Compare the verdicts of several runs.")
@click.argument("runs", nargs=-1, type=click.Path(exists=True, path_type=Path))
def stability(runs):
    """Compare the verdicts of several runs on one machine. RUNS are two or more folders of records. Exits with 1 if
    firm verdicts differ."""
    from rlrepro.cases import all_claims
    from rlrepro.evidence.command import print_stability

    if len(set(runs)) < 2:
        raise click.UsageError("pass two or more folders to compare")
    try:
        sys.exit(print_stability(runs, all_claims()))
    except OSError as error:
        raise click.ClickException(str(error)) from None


@click.command(short_help="Write slides for each chapter of a run.")
@click.option("--run", type=PATH, default=LATEST, show_default=True, help="Folder with the executed notebooks.")
@click.option("--out", type=PATH, default=Path("build/slides"), show_default=True, help="Folder of the decks.")
def slides(run, out):
    """Write slides for each chapter of a run: single files that need no network."""
    from rlrepro.course.slides import NoRun, write_slides

    try:
        click.echo("\n".join(map(str, write_slides(run, out))))
    except (NoRun, OSError) as error:
        raise click.ClickException(str(error)) from None


@click.command()
@click.option("--run", type=PATH, default=LATEST, show_default=True, help="Folder with the executed notebooks.")
@click.option("--out", type=PATH, default=Path("book"), show_default=True, help="Folder of the site.")
def book(run, out):
    """Build the site of a run. It is written to OUT/_build/html. Notebooks that are missing from the run, or have
    changed since, are run first, with the profile and device of that run."""
    from rlrepro.course import runner
    from rlrepro.course.site.assemble import NothingToShow
    from rlrepro.course.site.build import BookFailed, build

    try:
        outdated = runner.outdated(run)
        for executed in runner.run_notebooks(outdated, run, runner.parameters_of_run(run)) if outdated else ():
            click.echo(f"{executed.name} {'failed at ' + executed.error if executed.error else 'ran'}: {executed.path}")
            if executed.error:
                sys.exit(1)
        click.echo(f"the site: {build(run, out)}")
    except (BookFailed, NothingToShow, runner.Busy, runner.UnknownNotebook, OSError) as error:
        raise click.ClickException(str(error)) from None


@click.command(short_help="Check and pack the records of a run.")
@click.argument("run", type=FOLDER, default=LATEST)
@click.option("--to", type=PATH, help="The archive to write; by default MACHINE.tar.gz.")
def pack(run, to):
    """Check the records of RUN (by default, runs/latest) and pack them, to be added to the reference records."""
    from rlrepro.cases import all_claims
    from rlrepro.evidence.packing import NotComplete, pack

    try:
        click.echo(pack(run, to, {claim.chapter for claim in all_claims()}))
    except (NotComplete, OSError) as error:
        raise click.ClickException(str(error)) from None


@click.command(short_help="Print a report of a problem that is still open.")
@click.argument("report_id", metavar="[ID]", required=False)
def report(report_id):
    """Print a report of a problem that a library's newest release still has: where it is, what was measured, the
    cause, the smallest change that fixes it, a script that shows it and a regression test. Without an ID, list the
    reports."""
    from rlrepro.course.reports import render, reports

    by_id = reports()
    if report_id and report_id not in by_id:
        raise click.UsageError(f"no report {report_id!r}; there are {', '.join(by_id)}")
    if report_id:
        click.echo(render(by_id[report_id]))
    else:
        click.echo("\n".join(f"{entry.id:30}{entry.title}" for entry in by_id.values()))


COMMANDS = (reproduce, verdicts, stability, slides, book, pack, report)


def _print_verdicts(folder: Path, as_json: bool, chapters: set[str] | None = None) -> bool:
    """Print the verdicts on the claims of these chapters, or of all. Returns whether every record could be read."""
    from rlrepro.cases import all_claims
    from rlrepro.evidence.command import print_verdicts

    try:
        claims = (claim for claim in all_claims() if chapters is None or claim.chapter in chapters)
        return print_verdicts(folder, claims, as_json=as_json)
    except BrokenPipeError:  # such as in `| head`
        raise
    except OSError as error:
        raise click.ClickException(str(error)) from None
