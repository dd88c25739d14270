"""train_many(fn, configs): many independent training runs at once, on one machine or on a cluster."""

import operator
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import cloudpickle
import joblib
from loky import cpu_count
from tqdm.auto import tqdm

from .failures import Report, shorten
from .gpus import visible_cards
from .isolated_worker import IsolatedWorkers
from .result_folder import ResultFolder, results_in, with_classes_by_name
from .runs import Run, has_name, prepare
from .threads import at_least_one, thread_budget
from .worker_main import Reply

BACKENDS = ("loky", "ray")
ON_ERROR = ("keep", "raise")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run: `value` is what the function returned, or `error` is the traceback of what it raised (or
    a message that its process was killed)."""

    config: Mapping[str, Any]
    value: Any
    error: str | None
    seconds: float  # of the call itself
    seed: int  # of the random generators


class TrainingFailed(RuntimeError):
    """A run failed and `on_error` was "raise"."""


def train_many(
    fn: Callable,
    configs: Iterable[Mapping[str, Any]],
    *,
    n_jobs: int | None = None,
    threads: int | None = None,
    gpus: float | None = None,
    timeout: float | None = None,
    retries: int = 1,
    backend: Literal["loky", "ray"] = "loky",
    on_error: Literal["keep", "raise"] = "keep",
    resume: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> list[Outcome]:
    """Call `fn(**config)` for each config, `n_jobs` at a time, each in a process with only its share of the threads.
    Returns one Outcome per config, in the same order.

    Args:
        fn: may be defined in a notebook; it is sent to the processes with cloudpickle, and so are the configs. A
            process takes one run after another, so whatever `fn` changes in it (a default of torch, an environment
            variable) stays changed for the next run, except for random generators and the number of threads.
        n_jobs: runs at once; None is one per core (with Ray: as many as its cluster has room for, even if it grows).
        threads: per process; None is `thread_budget(n_jobs)`, or 1 with Ray. Another number may change the order in
            which sums are rounded, so fix it if results must agree to the last bit for different `n_jobs`.
        gpus: GPUs of each run, or a fraction of one. On this machine, each run sees its own in CUDA_VISIBLE_DEVICES,
            and no more runs start at once than fit; with Ray, it is `num_gpus`.
        timeout: seconds after which a run is killed, whatever it does, and has an `error`. They count from the call of
            `fn`; time spent waiting for a free core or node does not count. Such a run is not started again. On this
            machine, all processes that a killed run has started are killed too, except those that have moved to a
            process group of their own; with Ray, those that it has forked, on Linux. On Windows, only its own
            process is killed, and only by loky.
        retries: with Ray, how often a run is started again if its node or its process is lost.
        backend: "loky" is this machine; "ray" is the Ray session that is initialized, otherwise the cluster at
            RAY_ADDRESS or on this machine, otherwise a new one.
        on_error: "keep": a failed or killed run becomes an Outcome with `error`, and the others continue. "raise": the
            first failure ends the call with TrainingFailed.
        resume: a folder where each result is written as soon as it is available; results in it are not computed again.
            They are identified by the name, the text and the code of `fn`, the config, `seed`, the code of functions in
            the config, and the global constants that `fn` and these functions read (plain data: numbers, strings,
            bytes, None, NumPy's scalars, and lists, tuples, dicts and sets of these). After a change of `fn` or of its
            constants, or with another Python, runs are repeated with a warning, and old results are kept too. What
            these functions call, and other global objects, are not compared. A `fn` without a unique name (a lambda, a
            partial, a closure, anything bound to an object) is refused; a decorated function is accepted if its module
            has it under that name. An object whose class is defined in the script is loaded with the class of that
            name that the script has then; if there is none, the run is repeated. With None, results are kept until the
            end of the call; if it is interrupted, those so far remain, and the message says where.
        seed: Python's, NumPy's and torch's generators are seeded before each run, from this seed and its config, so it
            doesn't matter which process runs it, or when. A `fn` that requires a parameter `seed` is given that seed
            unless its config has one; environments need it (`env.reset(seed=seed)`, `PPO(..., seed=seed)`).

    Raises ValueError for an invalid number, an unknown option, or a config that can't be pickled; RuntimeError if there
    are too few GPUs for `gpus`; ImportError if Ray is not installed; OSError if `resume` can't be written to; and
    RuntimeError if another call is using it.
    """
    if backend not in BACKENDS or on_error not in ON_ERROR:
        raise ValueError(
            f"backend must be one of {BACKENDS} and on_error of {ON_ERROR}, found {backend!r}, {on_error!r}"
        )
    n_jobs, threads = (
        None if value is None else at_least_one(name, value)
        for name, value in (("n_jobs", n_jobs), ("threads", threads))
    )
    if gpus is not None and (isinstance(gpus, bool) or not gpus > 0 or (gpus > 1 and gpus != int(gpus))):
        raise ValueError(f"gpus must be a number of GPUs, or a fraction of one, found {gpus!r}")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries must be a whole number of 0 or more, found {retries!r}")
    if timeout is not None and not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(f"timeout must be a positive number of seconds, or None for no limit; found {timeout!r}")
    cards = visible_cards(gpus) if gpus is not None and backend == "loky" else None
    if resume is not None and not has_name(fn):
        raise ValueError(
            f"with resume, fn must be a function with a unique name, found {fn!r}: its results could be confused with "
            "another function's. Define it with def, and put what it is bound to into the configs"
        )
    runs = prepare(fn, list(configs), operator.index(seed))
    with results_in(resume) as folder:
        outcomes = {run.key: _outcome(run, folder.load(run.name)) for run in runs}
        missing = [run for run in runs if outcomes[run.key].error is not None]
        keys_of_other_code = {key.rpartition("-")[0] for key in folder.keys() - {run.name for run in runs}}
        if stale := [run for run in missing if run.key in keys_of_other_code]:
            warnings.warn(
                f"{len(stale)} results in {folder.path} come from different code of {fn.__qualname__}, other values of "
                "the global constants that it reads, or another Python: these runs are computed again, and both "
                "results are kept. To use the earlier ones, restore its code and constants",
                stacklevel=2,
            )
        report = progress if isinstance(progress, Report) else Report(getattr(fn, "__name__", "train"))
        bar = tqdm(
            total=len(runs),
            initial=len(runs) - len(missing),
            desc=report.name,
            unit="run",
            disable=not progress,
        )
        with bar, _workers(backend, n_jobs, threads, gpus, cards, timeout, retries) as (workers, at_once):
            # each run has a process of its own; the threads here only wait for these
            parallel = joblib.Parallel(at_once, backend="threading", batch_size=1, return_as="generator_unordered")
            for run, outcome in parallel(joblib.delayed(_execute)(run, workers, folder) for run in missing):
                outcomes[run.key] = outcome
                bar.update()
                if outcome.error is not None and on_error == "raise":
                    raise TrainingFailed(f"the run with {shorten(run.config)} failed:\n{outcome.error}")
                for line in report.lines(outcome) if progress else ():
                    bar.write(line, file=sys.stderr)
    return [outcomes[run.key] for run in runs]


def _outcome(run: Run, reply: Reply | None) -> Outcome:
    if reply is None:
        return Outcome(run.config, None, "not run", 0.0, run.seed)
    value, error = None, reply.error
    if reply.value is not None:
        try:
            value = cloudpickle.loads(reply.value)
        except Exception:  # its class may exist in the worker only
            error = f"what the run returned can't be unpickled here:\n{traceback.format_exc()}"
    return Outcome(run.config, value, error, reply.seconds, run.seed)


@contextmanager
def _workers(backend: str, n_jobs, threads, gpus, cards, timeout, retries):
    """The workers that execute runs, and how many runs they take at once."""
    if backend == "loky":
        n_jobs = min(n_jobs or cpu_count(), len(cards) if cards else sys.maxsize)
        workers = IsolatedWorkers(threads or thread_budget(n_jobs), cards, timeout)
    else:
        try:
            from .ray_tasks import RayTasks
        except ImportError as error:
            raise ImportError("backend='ray' needs Ray: pip install ray") from error
        workers = RayTasks(threads or 1, gpus, timeout, retries)
        n_jobs = n_jobs or workers.at_once
    try:
        yield workers, n_jobs
    finally:
        workers.close()


def _execute(run: Run, workers, folder: ResultFolder) -> tuple[Run, Outcome]:
    reply = workers.call(run.payload(), run.seed)
    outcome = _outcome(run, reply)
    if outcome.error is None:
        folder.keep(run.name, replace(reply, value=with_classes_by_name(reply.value, outcome.value)))
    return run, outcome
