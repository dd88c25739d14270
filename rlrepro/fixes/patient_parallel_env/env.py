"""torchrl's ParallelEnv with a parent that sleeps while its workers step.

It relies on private attributes. From 0.12.0 on, `_start_workers` assigns `_shm_done_flags` and passes its value to the
workers, which assign 1 to their item of it; before, each worker sets its item of `_events`. `_wait_for_workers` returns
when all of them have.
"""

import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from torch import multiprocessing
from torchrl.envs import ParallelEnv, batched_envs

from .done_events import DoneEvents
from .done_flags import DoneFlags

CHECK_SECONDS = 0.1  # between checks that workers are alive, as in torchrl 0.11.1

SOURCE = inspect.getsource(ParallelEnv)
HAS_FLAGS = "_shm_done_flags" in SOURCE  # otherwise it polls events, or sleeps

if not HAS_FLAGS and "if event.is_set()" not in SOURCE:
    raise ImportError(
        "expected a ParallelEnv whose parent polls; in this torchrl, as before 0.7.1 and in 0.11, the parent already "
        "sleeps: use torchrl's ParallelEnv as it is"
    )

PATCHED = (
    "_shm_done_flags", "_wait_for_workers", "_wait_patiently", "_finish_command", "_indices", "load_state_dict",
    "__setitem__", "_clear_flags",
)  # fmt: skip
ORIGINALS = {name: getattr(ParallelEnv, name) for name in PATCHED if hasattr(ParallelEnv, name)}
WORKER = inspect.getsource(batched_envs._run_worker_pipe_shared_mem)
SETTING_FLAGS = [  # after which a worker sets its flag, although the parent does not wait for it; fixed after 0.14.1
    command
    for command in ("load_state_dict", "set_env_snapshot")
    if "_signal_done()" in WORKER.partition(f'cmd == "{command}"')[2].partition("elif cmd ==")[0]
]


class PatientParallelEnv(ParallelEnv):
    """ParallelEnv whose parent sleeps while it waits, where that of torchrl 0.7.1 to 0.10.1 and of 0.12.0 to 0.14.1
    keeps a core busy.

    Takes the same arguments and returns the same transitions, with three exceptions, which are bugs in torchrl: after
    `load_state_dict` (from 0.12.0 on), `env[i] = snapshot` (where torchrl has it) and Ctrl-C in a step, its ParallelEnv
    returns each transition one step too late. Here, Ctrl-C waits for the step to end. With use_buffers=False, it
    differs from torchrl only in 0.8.0 to 0.10.1.

    A worker that dies raises the same RuntimeError, as does one that takes longer than BATCHED_PIPE_TIMEOUT.

    Tested with torchrl 0.7.2, 0.10.1, 0.12.0, 0.13.3, 0.14.1.
    """

    @property
    def _shm_done_flags(self):
        return self.__dict__["_shm_done_flags"]

    @_shm_done_flags.setter
    def _shm_done_flags(self, flags) -> None:
        context = multiprocessing.get_context(self._mp_start_method or batched_envs._get_default_mp_start_method())
        self.__dict__["_shm_done_flags"] = DoneFlags(flags, context)

    def _wait_for_workers(self, workers_range: Sequence[int]) -> None:
        done = self.__dict__.get("_shm_done_flags") if HAS_FLAGS else DoneEvents(self._events)
        if HAS_FLAGS and not (self._use_buffers and isinstance(done, DoneFlags)):  # started before `wait_patiently`
            return ORIGINALS["_wait_for_workers"](self, workers_range)
        try:
            self._wait_patiently(done, workers_range)
        except KeyboardInterrupt:
            self._finish_command(done, workers_range)
            raise

    def _finish_command(self, done: DoneFlags | DoneEvents, workers_range: Sequence[int]) -> None:
        """Consume the flags and messages of an interrupted command; the next one would take them for its own."""
        end = time.monotonic() + self.BATCHED_PIPE_TIMEOUT
        while not done.wait(self._indices(workers_range), CHECK_SECONDS):
            if time.monotonic() > end or not all(self._workers[worker].is_alive() for worker in workers_range):
                return  # in a terminal, Ctrl-C ends the workers too
        if not self._use_buffers or self._non_tensor_keys:
            for worker in workers_range:
                with suppress(EOFError, OSError):  # it has ended
                    if self.parent_channels[worker].poll(CHECK_SECONDS):
                        self.parent_channels[worker].recv()

    def _indices(self, workers_range: Sequence[int]) -> list[int]:
        indices = self.__dict__.get("_worker_indices", range(self.num_workers))  # a view `env[1:]` has only some
        return [indices[worker] for worker in workers_range]

    def _wait_patiently(self, done: DoneFlags | DoneEvents, workers_range: Sequence[int]) -> None:
        end = time.monotonic() + self.BATCHED_PIPE_TIMEOUT
        indices = self._indices(workers_range)
        while not done.wait(indices, min(CHECK_SECONDS, end - time.monotonic())):
            for worker, index in zip(workers_range, indices, strict=True):
                if not self._workers[worker].is_alive() and not done[index]:
                    try:
                        self._shutdown_workers()
                    finally:
                        raise RuntimeError(f"Cannot proceed, worker {worker} dead.")
            if time.monotonic() > end:
                raise RuntimeError(
                    f"Failed to run all workers within the {self.BATCHED_PIPE_TIMEOUT} sec time limit. This threshold "
                    "can be increased via the BATCHED_PIPE_TIMEOUT env variable."
                )

    def load_state_dict(self, state_dict, **kwargs) -> None:
        ORIGINALS["load_state_dict"](self, state_dict, **kwargs)
        self._clear_flags("load_state_dict", range(self.num_workers))

    if "__setitem__" in ORIGINALS:  # not in 0.12

        def __setitem__(self, item, source) -> None:
            ORIGINALS["__setitem__"](self, item, source)
            workers = batched_envs._normalize_batched_env_index(item, self.num_workers)
            self._clear_flags("set_env_snapshot", workers)

    def _clear_flags(self, command: str, workers: Sequence[int]) -> None:
        """Workers set their flags after these commands too, and torchrl leaves them set for the next step."""
        if self._use_buffers and command in SETTING_FLAGS:
            self._wait_for_workers(workers)


def wait_patiently() -> Callable[[], None]:
    """Make every ParallelEnv that is started from now on wait like PatientParallelEnv, also inside collectors of this
    process. Returns a function that undoes this; environments already running then continue with torchrl's wait."""
    replacements = {name: vars(PatientParallelEnv)[name] for name in PATCHED if name in vars(PatientParallelEnv)}
    for name, value in replacements.items():
        setattr(ParallelEnv, name, value)

    def undo() -> None:
        for name in replacements:
            if name in ORIGINALS:
                setattr(ParallelEnv, name, ORIGINALS[name])
            elif name in vars(ParallelEnv):
                delattr(ParallelEnv, name)

    return undo
