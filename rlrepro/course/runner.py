"""Run notebooks through papermill, without losing an earlier run if one fails.

A notebook runs in `OUT/partial/`; the executed notebook and its records move to OUT once it has succeeded.
"""

import math
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import nbformat
import papermill
from filelock import FileLock, Timeout
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError
from papermill.execute import ERROR_MARKER_TAG

from rlrepro.lab.limits import CELL_SECONDS, FACTOR, INTERRUPT_SECONDS, KERNEL_SECONDS, limit, overrun

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
START = "__import__('rlrepro.course.kernel_start')"  # leaves no name in the notebook


@dataclass(frozen=True)
class Run:
    """The result of running a notebook: `path` is the executed notebook, or a part of it if there is an `error`."""

    name: str
    path: Path
    seconds: float
    error: str | None = None


class UnknownNotebook(ValueError):
    """There is no notebook with that name, or no folder of notebooks."""


class UnknownParameter(ValueError):
    """None of the chosen notebooks has a parameter with that name."""


class Busy(RuntimeError):
    """Another run is writing the same notebook to the same folder."""


def find_notebooks(only: Iterable[str] = (), folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks with these numbers ("02") or names; all if none are given. Raises UnknownNotebook."""
    notebooks = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
    if not notebooks:
        raise UnknownNotebook(
            f"no notebooks in {folder}; run this from a source checkout (reproduce also takes --notebooks FOLDER)"
        )
    selected = set()
    for name in only:
        matching = {path for path in notebooks if name in (path.stem, path.stem.split("_")[0])}
        if not matching:
            raise UnknownNotebook(f"no notebook {name!r}; there are {', '.join(path.stem for path in notebooks)}")
        selected |= matching
    return sorted(selected) or notebooks


def outdated(out: Path, folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks that have to be run again: those that are missing in `out`, that lack their records there, or that
    have changed since. If there are any, those that judge what the others measured are included."""
    notebooks = find_notebooks(folder=folder)
    changed = [path for path in notebooks if not _is_current(Path(out) / path.name, path)]
    return sorted({*changed, *filter(_judges, notebooks)}) if changed else []


def _judges(notebook: Path) -> bool:
    """Whether this notebook reads the records of the others."""
    return "run" in parameters_of(notebook)


def parameters_of_run(out: Path) -> dict[str, object]:
    """The profile and device with which the notebooks in `out` were run; smoke and auto if there are none."""
    for path in sorted(Path(out).glob("*.ipynb")):
        executed = _read(path)
        if executed and "papermill" in executed.metadata:
            parameters = executed.metadata.papermill.parameters
            return {"profile": parameters.get("profile", "smoke"), "device": parameters.get("device", "auto")}
    return {"profile": "smoke", "device": "auto"}


def _is_current(executed: Path, notebook: Path) -> bool:
    """Whether `executed` is this notebook, executed, with its records beside it."""
    content = _read(executed) if executed.with_suffix(".jsonl").exists() else None
    return content is not None and _sources(content) == _sources(_read(notebook))


def _sources(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", ())]


def _read(path: Path):
    """The notebook, or None if it is missing or can't be read."""
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError):
        return None


def parameters_of(notebook: Path) -> dict[str, str]:
    """The parameters of a notebook and what each means, from the comments in its parameters cell."""
    try:
        parameters = papermill.inspect_notebook(str(notebook))
    except ValueError as error:
        advice = f"if it names no kernel, jupytext --set-kernel python3 {notebook} adds one"
        raise ValueError(f"the parameters of {notebook} can't be read: {error} ({advice})") from error
    return {name: (parameter["help"] or "").strip() for name, parameter in parameters.items()}


def check_parameters(notebooks: Iterable[Path], parameters: Mapping[str, object]) -> None:
    """Raises UnknownParameter, with the valid names, for a name that no notebook has; papermill would only warn."""
    valid = {name for notebook in notebooks for name in parameters_of(notebook)}
    if unknown := set(parameters) - valid:
        raise UnknownParameter(f"no parameter {', '.join(sorted(unknown))}; there are {', '.join(sorted(valid))}")


def run_notebooks(notebooks: Iterable[Path], out: Path, parameters: Mapping[str, object]):
    """Run each notebook with the parameters that it has. Yields a Run for each, including failed ones.

    Raises Busy if another run is writing one of them to `out`, and UnknownParameter before anything runs.
    """
    notebooks = sorted(notebooks, key=_judges)  # those that judge what the others measured come last
    out = Path(out).resolve()
    check_parameters(notebooks, parameters)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        for notebook in notebooks:
            try:
                locks.enter_context(FileLock(out / f".{notebook.stem}.lock", timeout=0))
            except Timeout:
                advice = "wait for it, or choose another folder with --out"
                raise Busy(f"another run is writing {notebook.stem} to {out}; {advice}") from None
        for notebook in notebooks:
            yield _run(notebook, out, parameters)


def _run(notebook: Path, out: Path, parameters) -> Run:
    """Run one notebook. An error is stored in its Run, so that the others still run."""
    target = out / "partial" / notebook.stem / notebook.name
    start = time.monotonic()
    try:
        error = _execute(notebook, target, out, parameters)
        if not error:
            _move(target.parent, out)
    except Exception as exception:  # such as a kernel that is not installed
        cause = "a file could not be read or written" if isinstance(exception, OSError) else type(exception).__name__
        error = f"{_last_cell(target)}: {cause}: {exception}"
    return Run(notebook.stem, target if error else out / notebook.name, time.monotonic() - start, error)


def _move(partial: Path, out: Path) -> None:
    for path in partial.iterdir():
        if (out / path.name).is_dir():
            shutil.rmtree(out / path.name)
        path.replace(out / path.name)
    partial.rmdir()


def _execute(notebook: Path, target: Path, out: Path, parameters) -> str | None:
    """Execute a notebook into `target`. Returns the error that ended it, or None."""
    partial = target.parent
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    profile = parameters.get("profile", "smoke")
    allowed = math.ceil(limit(CELL_SECONDS.get(profile, CELL_SECONDS["full"])))
    valid, folders = parameters_of(notebook), {"run": str(out), "out": str(partial)}
    error = None
    try:
        papermill.execute_notebook(
            notebook,
            target,
            parameters={name: value for name, value in {**parameters, **folders}.items() if name in valid},
            kernel_name="python3",
            cwd=notebook.parent,
            progress_bar={"desc": notebook.stem},
            autosave_cell_every=0,
            start_timeout=math.ceil(limit(KERNEL_SECONDS)),
            execution_timeout=allowed,
            interrupt_on_timeout=True,  # so that the traceback shows where the cell was, and releases are closed
            error_on_timeout={"ename": "Timeout", "evalue": "", "traceback": []},
            iopub_timeout=math.ceil(limit(INTERRUPT_SECONDS)),
            extra_arguments=["--IPKernelApp.log_level=CRITICAL", f"--IPKernelApp.exec_lines={START}"],
        )
    except PapermillExecutionError as exception:
        error = f"cell {exception.cell_index}: {exception.ename}: {exception.evalue}"
    except (DeadKernelError, CellTimeoutError) as exception:
        error = f"{_last_cell(target)}: {type(exception).__name__}: {exception}"
    except RuntimeError as exception:
        if not str(exception).startswith("Kernel "):  # "didn't respond in 300 seconds", "died before replying"
            raise
        error = f"the start of its kernel: {exception}; on a slow machine set {FACTOR}=2, which doubles every limit"
    if late := _late_cell(target, allowed):
        number, first_line = late
        subject = f"the cell that begins with {first_line!r}, under the profile {profile},"
        error = f"cell {number}: {overrun(subject, allowed, 'It was interrupted; the notebook below shows where.')}"
    return error


def _late_cell(partial: Path, allowed: float) -> tuple[int, str] | None:
    """The number and first line of the cell that used up its time, if there is one. A cell may catch the interrupt and
    seem to have succeeded."""
    executed = _read(partial)
    cells = executed.cells if executed else []
    cells = [cell for cell in cells if ERROR_MARKER_TAG not in cell.metadata.get("tags", ())]  # papermill's own
    for number, cell in enumerate(cells):
        if (cell.metadata.get("papermill", {}).get("duration") or 0) >= allowed:
            return number, (cell.source.splitlines() or [""])[0]
    return None


def _last_cell(partial: Path) -> str:
    """The cell to which the kernel never replied; papermill itself marks it as completed."""
    if not partial.exists():
        return "its start"
    if (executed := _read(partial)) is None:
        return "the end, when it was saved"
    cells = enumerate(executed.cells)
    code = [(i, cell.metadata.get("execution", {})) for i, cell in cells if cell.cell_type == "code"]
    if not any(execution for _, execution in code):
        return "the start of its kernel"
    unanswered = [i for i, execution in code if "shell.execute_reply" not in execution]
    return f"cell {unanswered[0]}" if unanswered else "its end"
