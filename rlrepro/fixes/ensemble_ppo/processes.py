"""The environments of an ensemble in separate processes, which can be ended even if one of them has died."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import wait
from operator import attrgetter

import gymnasium as gym
import loky  # noqa: F401, registers its multiprocessing context
from gymnasium.vector import AsyncVectorEnv

EXIT_SECONDS = 1.0  # for a process that has closed its pipe to end
CLOSE_SECONDS = 5.0  # for all processes to finish their steps and to close their environments
IS_STARTED = attrgetter("pid")


class EnvProcesses(AsyncVectorEnv):
    """Each environment in its own process; `n_envs` of them, side by side, belong to one member.

    Raises RuntimeError, with the members, if processes have died. After an error or an interrupt, replies may be
    pending, so the next `reset` starts new processes."""

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], n_envs: int, **options):
        self._n_envs, self.processes = n_envs, []
        # after computing with threads, a forked process would hang; a spawned one would run the main script again
        self._options = {"context": "loky", "shared_memory": False, **options}  # loky's can't share memory
        self._options["env_fns"] = [partial(_make_uninterrupted, os.getpid(), make) for make in env_fns]
        with self._checked():
            super().__init__(**self._options)

    def reset(self, **options):
        must_restart = not (self._is_ready or self.closed)
        with self._checked():
            if must_restart:
                self.close_extras()
                super().__init__(**self._options)
            return super().reset(**options)

    def step(self, actions):
        with self._checked():
            return super().step(actions)

    def close_extras(self, timeout: float = CLOSE_SECONDS, terminate: bool = False) -> None:
        """Let the processes close their environments, and kill those that still run after `timeout` seconds, or at once
        with `terminate`. A pending step is dropped."""
        deadline = time.monotonic() + (0 if terminate else timeout)
        for pipe in filter(None, self.parent_pipes):
            with suppress(OSError):  # its process has died
                pipe.send(("close", None))
        for process in filter(IS_STARTED, self.processes):
            process.join(max(0, deadline - time.monotonic()))
            if process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # loky's have no kill()
                process.join(EXIT_SECONDS)
        for pipe in filter(None, self.parent_pipes):
            pipe.close()

    @contextmanager
    def _checked(self):
        """Name the members whose processes die during a call, and note whether all processes have answered it."""
        self._is_ready = False
        try:
            yield
        except (EOFError, OSError) as error:
            started = list(filter(IS_STARTED, self.processes))
            ended, codes = wait([process.sentinel for process in started], timeout=EXIT_SECONDS), {}
            for index, process in enumerate(started):
                if process.sentinel in ended and self.parent_pipes[index]:  # without a pipe, it has reported its error
                    process.join(EXIT_SECONDS)
                    codes[index // self._n_envs] = process.exitcode
            if not codes:
                raise
            raise RuntimeError(
                f"environment processes of members {list(codes)} died (exit codes {list(codes.values())}): see above "
                "for a traceback; if memory ran out, use fewer members. Another learn() starts new processes"
            ) from error
        self._is_ready = True


def _make_uninterrupted(parent: int, make: Callable[[], gym.Env]) -> gym.Env:
    """An environment; a process other than `parent` then ignores Ctrl-C, since the parent decides what that means."""
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return make()
