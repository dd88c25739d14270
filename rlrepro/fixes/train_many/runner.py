"""train_many(fn, configs): many independent training runs at once, on one machine or on a cluster."""

import hashlib
import operator
import pickle
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

import cloudpickle
import joblib
from loky import cpu_count
from tqdm.auto import tqdm

from .isolated_worker import OwnProcesses
from .result_folder import ResultFolder
from .threads import at_least_one, thread_budget
from .worker_main import Reply

BACKENDS = ("loky", "ray")
ON_ERROR = ("keep", "raise")


@dataclass(frozen=True)
class Outcome:
    """What became of one training: `value` is what the function returned, or `error` is the traceback of what it raised
    (or says that its process was killed)."""

    config: Mapping[str, Any]
    value: Any
    error: str | None
    seconds: float  # of the call itself
    seed: int  # of the random generators


class TrainingFailed(RuntimeError):
    """A training failed and `on_error` was "raise"."""


def train_many(
    fn: Callable,
    configs: Iterable[Mapping[str, Any]],
    *,
    n_jobs: int | None = None,
    threads: int | None = None,
    backend: Literal["loky", "ray"] = "loky",
    on_error: Literal["keep", "raise"] = "keep",
    resume: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> list[Outcome]:
    """Call `fn(**config)` for each config, `n_jobs` at a time, each in a process that has only as many threads as leave
    the others theirs. Returns one Outcome a config, in their order.

    fn        may be defined in a notebook; it and the configs travel by pickle.
    n_jobs    at once; None is as many as there are cores (with Ray: CPUs of the cluster).
    threads   of each process; None is `thread_budget(n_jobs)`, with Ray 1. With another number sums may be rounded in
              another order, so fix it where results must agree to the last bit for different `n_jobs`.
    backend   "loky" is this machine; "ray" is the Ray that is initialised, the one at RAY_ADDRESS, or a local one.
    on_error  "keep": a failed or killed training is an Outcome with `error`, and the others go on. "raise": the first
              one ends the run with TrainingFailed.
    resume    a folder where each result is written as it comes; those that are there are not computed again. They
              belong to the name of `fn`, its config and `seed`: after a change of `fn`, take another folder. A `fn`
              that its name does not tell from others (a lambda, a partial, a closure, anything bound to an object) is
              refused; a decorated function is not, where its module has it under that name. None keeps results until
              the end of the call; when it is interrupted, they stay, and the message says where.
    seed      Python's, NumPy's and torch's generators are seeded before each training, from this and its config, so
              that it doesn't matter which process runs it, or when. A `fn` that requires a parameter `seed` gets that
              seed if its config has none; environments need it (`env.reset(seed=seed)`, `PPO(..., seed=seed)`).

    Raises ValueError for a number below 1, a word that is not listed, or what can't be pickled, ImportError where Ray
    is not installed, OSError where nothing can be written to `resume`, RuntimeError where another run is using it.
    """
    if backend not in BACKENDS or on_error not in ON_ERROR:
        raise ValueError(
            f"backend must be one of {BACKENDS} and on_error of {ON_ERROR}, found {backend!r}, {on_error!r}"
        )
    n_jobs, threads = (
        None if value is None else at_least_one(name, value)
        for name, value in (("n_jobs", n_jobs), ("threads", threads))
    )
    if resume is not None and not _has_name(fn):
        raise ValueError(
            f"with resume, fn must be a function with a name of its own, found {fn!r}: results of another one would be "
            "taken for its. Define it with def, and put what it is bound to into the configs"
        )
    trainings = _prepare(fn, list(configs), operator.index(seed))
    with _folder(resume) as folder:
        found = {training.key: _outcome(training, folder.load(training.key)) for training in trainings}
        missing = [training for training in trainings if found[training.key].error is not None]
        bar = tqdm(
            total=len(trainings),
            initial=len(trainings) - len(missing),
            desc=getattr(fn, "__name__", "train"),
            unit="training",
            disable=not progress,
        )
        with bar, _workers(backend, n_jobs, threads) as (workers, at_once):
            # the trainings run in processes; the threads here wait for them
            waiting = joblib.Parallel(at_once, backend="threading", batch_size=1, return_as="generator_unordered")
            for training, outcome in waiting(joblib.delayed(_run)(training, workers, folder) for training in missing):
                found[training.key] = outcome
                bar.update()
                if outcome.error is not None and on_error == "raise":
                    raise TrainingFailed(f"the training with {training.config} failed:\n{outcome.error}")
                if outcome.error is not None and progress:
                    last = outcome.error.strip().splitlines()[-1]
                    bar.write(f"failed: {training.config}: {last}", file=sys.stderr)
    return [found[training.key] for training in trainings]


@dataclass(frozen=True)
class _Training:
    key: str  # the name of its result
    config: Mapping[str, Any]
    payload: bytes  # fn and config
    seed: int


def _prepare(fn, configs, seed: int) -> list[_Training]:
    """What is to be done. Raises ValueError, saying which config, for what can't be sent to another process."""
    name = f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"
    needs_seed = _requires_seed(fn)
    seen, trainings = Counter(), []
    for index, config in enumerate(configs):
        if not isinstance(config, Mapping):
            raise ValueError(f"config {index} must map names of parameters to values, found {config!r}")
        try:
            digest = joblib.hash((name, seed, dict(config)))
            if digest != joblib.hash(cloudpickle.loads(cloudpickle.dumps((name, seed, dict(config))))):
                raise TypeError("a copy of it looks different, as of a tensor, so its results could not be found again")
            seen[digest] += 1
            key = f"{digest}-{seen[digest]}"
            its_seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
            with_seed = {"seed": its_seed} if needs_seed and "seed" not in config else {}
            payload = cloudpickle.dumps((fn, {**config, **with_seed}))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ValueError(
                f"config {index} can't be sent to another process: {error}. Found {config!r}; give what the training "
                "needs to make it (a name, a path, numbers) in place of the object itself"
            ) from error
        trainings.append(_Training(key, config, payload, its_seed))
    return trainings


def _has_name(fn) -> bool:
    """Whether the name of `fn` tells it from others: it is what its module has under that name, or a function that
    holds nothing but its code."""
    if isinstance(fn, FunctionType) and fn.__name__ != "<lambda>" and fn.__closure__ is None:
        return True
    try:
        return attrgetter(fn.__qualname__)(sys.modules[fn.__module__]) is fn
    except (AttributeError, KeyError):  # no name, no module, or nothing there
        return False


def _requires_seed(fn) -> bool:
    try:
        found = signature(fn).parameters.get("seed")
    except (TypeError, ValueError):  # a builtin
        return False
    return found is not None and found.default is Parameter.empty


@contextmanager
def _folder(resume):
    """The folder for results; one of our own is removed at the end, unless the run is interrupted."""
    own = resume is None
    path = Path(tempfile.mkdtemp(prefix="train_many-")) if own else Path(resume)
    with ResultFolder(path) as folder:
        try:
            yield folder
        except BaseException as raised:
            if any(path.glob("*.pickle")):
                told = f"What has finished is kept: call again with resume={str(path)!r} for the rest."
                raised.add_note(told) if hasattr(raised, "add_note") else warnings.warn(told, stacklevel=2)  # 3.10
                own = False
            raise
        finally:
            if own:
                shutil.rmtree(path, ignore_errors=True)


def _save(folder: ResultFolder, key: str, reply: Reply) -> None:
    try:
        folder.save(key, reply)
    except OSError as error:
        warnings.warn(
            f"a result could not be written to {folder.path} ({error.strerror}): it will be in what is returned, and a "
            "later call would compute it again. Make room",
            stacklevel=3,
        )


def _outcome(training: _Training, reply: Reply | None) -> Outcome:
    if reply is None:
        return Outcome(training.config, None, "not run", 0.0, training.seed)
    value, error = None, reply.error
    if reply.value is not None:
        try:
            value = cloudpickle.loads(reply.value)
        except Exception:  # its class may exist in the worker only
            error = f"what the training returned can't be unpickled here:\n{traceback.format_exc()}"
    return Outcome(training.config, value, error, reply.seconds, training.seed)


@contextmanager
def _workers(backend: str, n_jobs: int | None, threads: int | None):
    """What runs a training, and how many of them at once."""
    if backend == "loky":
        n_jobs = n_jobs or cpu_count()
        workers = OwnProcesses(threads or thread_budget(n_jobs))
    else:
        try:
            from .ray_tasks import RayTasks
        except ImportError as error:
            raise ImportError("backend='ray' needs Ray: pip install ray") from error
        workers = RayTasks(threads or 1)
        n_jobs = n_jobs or workers.room
    try:
        yield workers, n_jobs
    finally:
        workers.close()


def _run(training: _Training, workers, folder: ResultFolder) -> tuple[_Training, Outcome]:
    reply = workers.call(training.payload, training.seed)
    outcome = _outcome(training, reply)
    if outcome.error is None:
        _save(folder, training.key, reply)
    return training, outcome
