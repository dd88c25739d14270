"""The command line: rlrepro reproduce | verdicts | book | fit | doctor | fetch | carry | matrix."""

import json
import os
import sys
from pathlib import Path

import click

from rlrepro import __version__
from rlrepro.extras import PYTHONS, Commands

PROFILES = ("tiny", "smoke", "full")
LATEST = Path("runs/latest")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main():
    """Documented problems of reinforcement-learning libraries: reproduced, explained, fixed."""
    if "RLREPRO_TIMEOUT_FACTOR" in os.environ:
        from rlrepro.lab.limits import limit

        try:
            limit(1.0)
        except ValueError as error:
            raise click.UsageError(str(error)) from None


@main.command()
@click.argument("only", nargs=-1)
@click.option("--profile", type=click.Choice(PROFILES), default="smoke", help="How much to measure.")
@click.option("--device", default="auto", help="auto, cpu, cuda or cuda:N.")
@click.option("--out", type=click.Path(path_type=Path), default=LATEST, show_default=True, help="Where results go.")
@click.option("-p", "--parameter", "parameters", type=(str, str), multiple=True, help="Another parameter: NAME VALUE.")
@click.option("--notebooks", type=click.Path(path_type=Path), help="Another folder of notebooks.")
def reproduce(only, profile, device, out, parameters, notebooks):
    """Run the notebooks ONLY (numbers or names; all by default) and print the verdicts."""
    from rlrepro.course import runner as runner
    from rlrepro.lab import NoGPUError, resolve_device

    given = {"profile": profile, **{name: _literal(value) for name, value in parameters}}
    if own := {name for name, _ in parameters} & {"profile", "device", "out", "run"}:
        raise click.UsageError(f"{', '.join(sorted(own))}: use the option of that name in the place of -p")
    try:
        given["device"] = str(resolve_device(device))
        chosen = runner.find_notebooks(only, notebooks or runner.NOTEBOOKS)
        runner.check_parameters(chosen, given)
    except (ValueError, NoGPUError) as error:
        raise click.UsageError(str(error)) from None
    runs = []
    try:
        for run in runner.run_notebooks(chosen, out, given):
            click.echo(f"{run.name} {'failed' if run.error else 'ran'} in {run.seconds:.0f} s: {run.path}")
            runs.append(run)
    except runner.Busy as error:
        raise click.ClickException(str(error)) from None
    _print_verdicts(out, as_json=False, chapters={run.name for run in runs if not run.error})
    failed = [run for run in runs if run.error]
    for run in failed:
        click.secho(f"{run.name} failed at {run.error}", fg="red", err=True)
        click.echo(f"  as far as it came: {run.path}", err=True)
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), default=LATEST)
@click.option("--json", "as_json", is_flag=True, help="A list of objects, for a program.")
def verdicts(folder, as_json):
    """Print the verdicts of the records in FOLDER (runs/latest by default)."""
    _print_verdicts(folder, as_json)


@main.command()
@click.option("--run", type=click.Path(path_type=Path), default=LATEST, show_default=True, help="Executed notebooks.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("book"), show_default=True, help="Where it goes.")
def book(run, out):
    """Build the site of a run: OUT/_build/html. Notebooks that the run lacks, or that changed since, are run
    first, with its profile and device."""
    from rlrepro.course import runner as runner
    from rlrepro.course.site.assemble import NothingToShow
    from rlrepro.course.site.build import BookFailed, build
    from rlrepro.course.site.scripts import ScriptUnavailable

    try:
        old = runner.outdated(run)
        for done in runner.run_notebooks(old, run, runner.parameters_of_run(run)) if old else ():
            click.echo(f"{done.name} {'failed at ' + done.error if done.error else 'ran'}: {done.path}")
            if done.error:
                sys.exit(1)
        click.echo(f"the site: {build(run, out)}")
    except (BookFailed, NothingToShow, ScriptUnavailable, runner.Busy, runner.UnknownNotebook, OSError) as error:
        raise click.ClickException(str(error)) from None


@main.command()
@click.argument("releases", nargs=-1)
@click.option("--python", type=click.Choice(PYTHONS), help="For this Python on Linux of x86-64, not the one here.")
def fetch(releases, python):
    """Install RELEASES (name==version; all that the notebooks use by default), to be there without a network."""
    from rlrepro.lab import ReleaseUnavailable
    from rlrepro.lab.overlays import install, known_releases, parse_release

    for release in releases or known_releases():
        try:
            parse_release(release)
            click.echo(f"{release}: {install(release, python)}")
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        except ReleaseUnavailable as error:
            raise click.ClickException(str(error)) from None


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--python", type=click.Choice(PYTHONS), required=True, help="The Python there, on Linux of x86-64.")
@click.option(
    "--there",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What is installed there: what `python3 -m pip list --format=freeze` prints. torch alone by default.",
)
def carry(folder, python, there):
    """Fill FOLDER with what a machine without a network needs, besides torch and a checkout, to run the notebooks."""
    from rlrepro.course import offline_bundle as packing
    from rlrepro.lab import ReleaseUnavailable, format_value

    try:
        packing.carry(folder, python, packing.read_packages(there) if there else {})
    except (packing.CannotCarry, ReleaseUnavailable, OSError) as error:
        raise click.ClickException(str(error)) from None
    for part in ("wheels", "cache"):
        size = sum(path.stat().st_size for path in (folder / part).rglob("*") if path.is_file())
        click.echo(f"{folder / part}: {format_value(size, 'B')}")
    click.echo("\nCopy that folder into the checkout over there, and run in the checkout:\n")
    click.echo("\n".join(packing.commands(folder.resolve().name)))


@main.command()
@click.argument("only", nargs=-1)
@click.option("--wheel", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Of rlrepro, to be tried.")
@click.option("--records", type=click.Path(path_type=Path), help="Where they are kept; in results/MACHINE by default.")
@click.option(
    "--write", is_flag=True, help="Write what the records say into the fixes; without --wheel nothing is run."
)
def matrix(only, wheel, records, write):
    """Try the fixes with releases of their libraries, in environments of their own: all that are planned, or ONLY those
    whose release begins so ("tianshou", "torchrl==0.6"). Needs uv, and gigabytes of downloads."""
    from rlrepro.evidence import read_records
    from rlrepro.evidence.compatibility import run as trying
    from rlrepro.evidence.compatibility import table
    from rlrepro.evidence.compatibility.environments import UvMissing
    from rlrepro.lab import this_machine

    if not wheel and not write:
        raise click.UsageError("give the wheel to be tried (`make dist` builds one), or --write")
    records = records or Path("results") / this_machine().name / "compatibility.jsonl"
    try:
        for outcome in trying.run(records, wheel.resolve(), only) if wheel else ():
            release = "==".join(outcome.environment.release)
            click.echo(f"{outcome.fix} with {release}: {'works' if outcome.works else outcome.why}")
        for path in table.write(read_records(records)) if write else ():
            click.echo(f"wrote {path}")
    except (UvMissing, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from None


@main.command()
@click.argument("builder", metavar="MODULE:FUNCTION")
@click.option("--gib", type=float, required=True, help="Memory of the card, in GiB.")
@click.option("--rollout", type=int, required=True, help="Rows collected between updates.")
@click.option("--batch-size", type=int, default=64, show_default=True, help="Rows of a gradient step.")
@click.option("--max-batchsize", type=int, help="Rows of a pass without gradients: tianshou's, 256 where left out.")
@click.option("--library", default="tianshou-ppo", show_default=True, help="tianshou-a2c, sb3-ppo or torchrl-ppo.")
@click.option("--envs", type=int, default=1, show_default=True, help="Environments that are stepped at once.")
@click.option("--json", "as_json", is_flag=True, help="An object, for a program.")
def fit(builder, gib, as_json, **arguments):
    """Does an update fit on a card, before it is started? Exits with 1 where it does not.

    MODULE:FUNCTION is called without arguments and returns (actor, critic, obs_space, act_space), as rlrepro.fit.plan
    takes them; (policy,) is enough for sb3-ppo. No GPU is needed. Networks that are larger than this machine's memory
    can be built under torch.device("meta").
    """
    from rlrepro.fit import CannotPlan, plan
    from rlrepro.fit.builder import call_builder

    try:
        planned = plan(*call_builder(builder), device_memory_gib=gib, **arguments)
        largest = {"batch_size": planned.largest_batch_size(), "rollout": planned.largest_rollout()}
        if planned.max_batchsize is not None:
            largest["max_batchsize"] = planned.largest_max_batchsize()
    except CannotPlan as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        arguments["max_batchsize"] = planned.max_batchsize
        answer = {"gib": gib, **arguments, "stages_bytes": planned.stages, "margins_bytes": planned.margins}
        answer |= {"fits": planned.fits(), "failing_stage": planned.failing_stage()}
        answer |= {f"largest_{name}": size for name, size in largest.items()}
        click.echo(json.dumps(answer, indent=2))
    else:
        failing = planned.failing_stage()
        verdict = f"does not fit on {gib:g} GiB: {failing} needs more" if failing else f"fits on {gib:g} GiB"
        click.echo(f"{planned}\n\n{verdict}")
        stages = {"batch_size": "as far as learn goes", "max_batchsize": "as far as preprocess goes"}
        for name, size in largest.items():
            where = stages.get(name, "with these sizes; its observations lie in host memory")
            click.echo(f"largest {name}, {where}: {'no limit by the card' if size is None else f'{size:,}'}")
    sys.exit(0 if planned.fits() else 1)


@main.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--select", multiple=True, help="Only rules whose code begins so. Several times for several.")
@click.option("--ignore", multiple=True, help="Not the rules whose code begins so.")
@click.option("--exclude", multiple=True, help="Not the files whose path is like this.")
@click.option("--format", "form", type=click.Choice(("text", "json", "sarif", "github")), default="text")
@click.option(
    "--explain", metavar="CODE", help="Print a rule's page: why, what it costs, and the fix; all: every code."
)
@click.option("--fix", is_flag=True, help="Show the fixes that can be written mechanically as a diff, and ask.")
@click.option("--yes", is_flag=True, help="With --fix: write them without asking.")
@click.option("--run", "run_it", is_flag=True, help="PATHS is a command that trains, after --: run it and watch it.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="With --run: interrupt it after so long.")
@click.option("--try", "try_it", is_flag=True, help="--run, and again with fewer threads and with threads that sleep.")
def doctor(paths, select, ignore, exclude, form, explain, fix, yes, run_it, seconds, try_it):
    """Find this course's problems in the .py and .ipynb files at PATHS (here by default). Nothing of them is run.

    Exits with 1 where there are findings, and with 2 where no file could be read. A comment `# rlrepro: ignore[CODE]`
    silences one line, [tool.rlrepro] in pyproject.toml (lists select, ignore, exclude) a project.

    \b
    rlrepro doctor --run -- python train.py --steps 10000

    runs the command and watches it; it exits as the command does where that failed. With --try, it runs the command
    up to three times and says how much faster it gets ahead with a fix in its environment.
    """
    from rlrepro.doctor.finding import all_rules
    from rlrepro.doctor.report import FORMATS
    from rlrepro.doctor.report import explain as page
    from rlrepro.doctor.scan import UnknownCode, configuration, examine

    if explain == "all":
        click.echo("\n".join(f"{code} {rule.title}" for code, rule in all_rules().items()))
        return
    if explain:
        if explain not in all_rules():
            raise click.UsageError(f"no rule {explain!r}; there are {', '.join(all_rules())}")
        click.echo(page(all_rules()[explain]))
        return
    run_it = run_it or try_it
    if seconds and not run_it:
        raise click.UsageError("--seconds is how long a command is watched: give --run -- COMMAND as well")
    if fix and (run_it or form != "text"):
        raise click.UsageError("--fix shows a diff of files: give it neither --run nor --format")
    if run_it:
        from rlrepro.doctor.live.session import watch_command

        try:
            command = [str(word) for word in paths]
            text, status = watch_command(
                command, select=select, ignore=ignore, form=form, seconds=seconds, trying=try_it
            )
        except (ValueError, OSError) as error:
            raise click.UsageError(str(error)) from None
        click.echo(text)
        sys.exit(status)
    paths = paths or (Path(),)
    try:
        own = configuration(paths[0])
        found = examine(
            paths,
            select=select or own.get("select", ()),
            ignore=[*ignore, *own.get("ignore", ())],
            exclude=[*exclude, *own.get("exclude", ())],
        )
    except (UnknownCode, ValueError, FileNotFoundError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(FORMATS[form](found))
    if found.left_out and not found.read:
        sys.exit(2)
    sys.exit(_fix(found, yes) if fix and found.findings else 1 if found.findings else 0)


def _fix(found, yes: bool) -> int:
    """Show the diff, and write it where that is wanted; 1 where it was not."""
    from rlrepro.doctor.autofix import Changed, mendings

    changes = mendings(found)
    if changes:
        click.echo("\n" + "\n".join(each.diff for each in changes))
    written = {str(each.path) for each in changes}
    for finding in found.findings:
        if finding not in found.fixable or finding.path not in written:
            click.echo(f"not written, it is for you to decide: {finding.place} {finding.code}")
    if not changes:
        return 1
    if not yes and not (sys.stdin.isatty() and click.confirm(f"Write this into {len(changes)} files?")):
        click.echo("nothing was written" if sys.stdin.isatty() else "nothing was written; --yes writes it")
        return 1
    for each in changes:
        try:
            each.write()
        except (Changed, OSError) as error:
            raise click.ClickException(f"{error}; the files before it in the diff were written") from None
    click.echo(f"wrote {len(changes)} files: run rlrepro doctor again, and your tests")
    if any(b"rlrepro.fixes" in each.after for each in changes):
        click.echo("some import rlrepro.fixes now: add rlrepro to what your project requires")
    return 0


def _literal(text: str):
    """A parameter's value: as JSON where it is JSON (3, 0.5, true, [1, 2]), else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _print_verdicts(folder: Path, as_json: bool, chapters: set[str] | None = None) -> None:
    """The verdicts of the claims of these chapters; of all where none are named."""
    from rich.console import Console

    from rlrepro.cases import all_claims
    from rlrepro.evidence import read_records
    from rlrepro.evidence.verdicts import verdict_rows, verdict_table

    claims = [claim for claim in all_claims() if chapters is None or claim.chapter in chapters]
    if not claims:
        return
    try:
        records = read_records(folder)
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from None
    rows = verdict_rows(records, claims)
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    machines, profiles = ({row["machine"] for row in rows}, {record.profile for record in records})
    title = f"{', '.join(sorted(machines))}, profile {', '.join(sorted(profiles)) or 'none'}"
    Console().print(verdict_table(rows, title))
    click.echo("How to read a verdict: README.md. The notebooks and records they come from: " + str(folder))
