"""The command line. Each command parses its options here and calls the package that does the work."""

import os
import sys
from pathlib import Path

import click

from rlrepro import __version__
from rlrepro.course.cli import COMMANDS
from rlrepro.extras import PYTHONS, Commands

PATH, FOLDER = click.Path(path_type=Path), click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main():
    """Find, reproduce and fix documented memory and speed problems of reinforcement-learning libraries."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what can't be encoded becomes a question mark
            stream.reconfigure(errors="replace")
    if "RLREPRO_TIMEOUT_FACTOR" in os.environ:
        from rlrepro.lab.limits import limit

        try:
            limit(1.0)
        except ValueError as error:
            raise click.UsageError(str(error)) from None


@main.command()
@click.argument("releases", nargs=-1)
@click.option("--python", type=click.Choice(PYTHONS), help="Fetch for this Python on x86-64 Linux.")
def fetch(releases, python):
    """Download old releases of the libraries. RELEASES are given as name==version; by default, all that the notebooks
    use. They are then available without a network. Exits with 1 if any of them could not be downloaded."""
    from rlrepro.lab import ReleaseUnavailable
    from rlrepro.lab.overlays import install, known_releases, parse_release

    releases, failed = releases or [*known_releases()], []
    try:
        for release in releases:
            parse_release(release)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for release in releases:
        try:
            click.echo(f"{release}: {install(release, python)}")
        except ReleaseUnavailable as error:
            click.echo(f"Error: {error}", err=True)
            failed.append(release)
    if failed and len(releases) > 1:
        click.echo(f"{len(failed)} of {len(releases)} releases could not be installed: {', '.join(failed)}", err=True)
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("folder", type=FOLDER)
@click.option("--python", type=click.Choice(PYTHONS), required=True, help="The target's Python, on x86-64 Linux.")
@click.option(
    "--installed",
    type=FILE,
    help="Output of `python3 -m pip list --format=freeze` on the target. By default, only torch is assumed there.",
)
def carry(folder, python, installed):
    """Bundle what a machine without a network needs. FOLDER then holds everything that the notebooks require, apart
    from torch and a checkout of this repository."""
    from rlrepro.course import offline_bundle
    from rlrepro.lab import ReleaseUnavailable, format_value

    try:
        offline_bundle.carry(folder, python, offline_bundle.read_packages(installed) if installed else {})
    except (offline_bundle.CannotCarry, ReleaseUnavailable, OSError) as error:
        raise click.ClickException(str(error)) from None
    for subfolder in ("wheels", "cache"):
        size = sum(path.stat().st_size for path in (folder / subfolder).rglob("*") if path.is_file())
        click.echo(f"{folder / subfolder}: {format_value(size, 'B')}")
    click.echo("\nCopy that folder into the checkout on the other machine. In the checkout, run:\n")
    click.echo("\n".join(offline_bundle.commands(folder.resolve().name)))


@main.command()
@click.argument("only", nargs=-1)
@click.option("--wheel", type=FILE, help="The wheel of rlrepro to test.")
@click.option("--records", type=PATH, help="File for the records; by default in results/MACHINE.")
@click.option("--write", is_flag=True, help="Update the fixes' lists of tested releases.")
def matrix(only, wheel, records, write):
    """Test the fixes with releases of their libraries. Each release gets a separate environment. ONLY selects releases
    by prefix ("tianshou", "torchrl==0.6"). Needs uv, and downloads gigabytes."""
    from rlrepro.evidence.compatibility.command import UvMissing, update_fixes

    if not wheel and not write:
        raise click.UsageError("pass the --wheel to test (`make dist` builds one), or --write")
    try:
        for line in update_fixes(only, wheel, records, write):
            click.echo(line)
    except (UvMissing, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from None


@main.command()
@click.argument("target", metavar="FILE[:FUNCTION]|MODULE:FUNCTION")
@click.argument("arguments", nargs=-1)
@click.option("--gib", type=float, required=True, help="Memory of the GPU, in GiB.")
@click.option(
    "--size",
    type=(str, int),
    multiple=True,
    help="NAME VALUE of a size in FILE, such as batch_size 64.",
)
@click.option("--rollout", type=int, help="Transitions collected between updates; 2048 by default.")
@click.option("--batch-size", type=int, help="Samples per gradient step; 64 by default.")
@click.option(
    "--max-batchsize", type=int, help="Samples per forward pass without gradients (tianshou; 256 by default)."
)
@click.option("--library", help="tianshou-ppo (the default), tianshou-a2c, sb3-ppo or torchrl-ppo.")
@click.option("--envs", type=int, help="Environments that are stepped together; 1 by default.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def fit(target, gib, as_json, **options):
    """Predict whether an update fits into GPU memory, without a GPU. Exits with 1 if it does not.
    If the script FILE marks its update with rlrepro.fit.plannable, or defines make and step, that update is planned;
    otherwise FILE is run, with ARGUMENTS (after --), until it has taken a few gradient steps. FILE:FUNCTION chooses one
    of several marked functions. MODULE:FUNCTION returns (actor, critic, obs_space, act_space).
    """
    from rlrepro.fit import CannotPlan
    from rlrepro.fit.command import describe_plan

    try:
        text, fits = describe_plan(target, gib, as_json=as_json, **options)
    except CannotPlan as error:
        raise click.UsageError(str(error)) from None
    click.echo(text)
    sys.exit(0 if fits else 1)


@main.command()
@click.argument("paths", nargs=-1, type=PATH)
@click.option("--select", multiple=True, help="Only rules whose code starts with this. Can be repeated.")
@click.option("--ignore", multiple=True, help="Skip rules whose code starts with this. Can be repeated.")
@click.option("--exclude", multiple=True, help="Skip files whose path matches this pattern. Can be repeated.")
@click.option("--format", "form", type=click.Choice(("text", "json", "sarif", "github")), default="text")
@click.option("--explain", metavar="CODE", help="Explain a rule; 'all' lists the codes.")
@click.option("--fix", is_flag=True, help="Show a diff of the fixes that are safe to apply, and ask before writing.")
@click.option("--yes", is_flag=True, help="With --fix: write without asking.")
@click.option("--run", "run_it", is_flag=True, help="Run the training command given after --, and watch it.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="With --run or --try: stop each run after this many seconds.",
)
@click.option(
    "--try",
    "try_it",
    is_flag=True,
    help="Like --run, and then run it again with other thread settings in its environment.",
)
def doctor(paths, explain, run_it, seconds, try_it, **options):
    """Find memory and speed problems in a project. The .py and .ipynb files at PATHS (by default, the working
    directory) are read, but never run.

    Exits with 1 if there are findings (with --fix, if any are left), and with 2 if no file could be read. The
    comment `# rlrepro: ignore[CODE]` silences a rule on one line; [tool.rlrepro] in pyproject.toml (the lists select,
    ignore and exclude) configures a project.

    \b
    rlrepro doctor --run -- python train.py --steps 10000

    runs the command and watches it. If the command fails, its exit status is passed on. With --try, the command runs
    up to four times, and the report says how much faster it is with environment variables that limit its threads or
    let them sleep while they wait.
    """
    from rlrepro.doctor import command

    if explain:
        click.echo(command.explain_code(explain))
    elif run_it or try_it:
        sys.exit(command.watch(paths, seconds=seconds, trying=try_it, **options))
    elif seconds:
        raise click.UsageError("--seconds limits how long a command is watched: add --run -- COMMAND")
    else:
        sys.exit(command.check(paths or (Path(),), **options))


@main.command()
@click.argument("file", type=click.File(), default="-")
def triage(file):
    """Say which documented problem a traceback or a description fits. FILE holds the text; by default, standard input.
    Exits with 1 if it fits none."""
    from rlrepro.doctor.triage import describe

    text, fits = describe(file.read())
    click.echo(text)
    sys.exit(0 if fits else 1)


for command in COMMANDS:
    main.add_command(command)
