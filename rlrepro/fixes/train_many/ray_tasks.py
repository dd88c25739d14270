"""Calls as tasks of Ray, on whichever machine of its cluster has free CPUs."""

import time

import ray

from .threads import thread_variables
from .worker_main import Reply, answer


class RayTasks:
    """Runs each call as a task that takes `threads` CPUs: in the Ray that is initialised, otherwise in the one at
    RAY_ADDRESS, otherwise in a local one, which ends with this object. Raises ValueError if no node has that many
    CPUs."""

    def __init__(self, threads: int):
        self.threads, self.is_local = threads, not ray.is_initialized()
        if self.is_local:
            ray.init(log_to_driver=False)
        self._running, self._closed = set(), False
        self.room = sum(int(node["Resources"].get("CPU", 0)) // threads for node in ray.nodes() if node["Alive"])
        if self.room == 0:
            self.close()
            raise ValueError(
                f"no node of this Ray has {threads} CPUs for a training run: lower `threads`, or add a node"
            )
        environment = {"env_vars": thread_variables(threads)}
        self._task = ray.remote(num_cpus=threads, max_retries=0, runtime_env=environment)(answer)

    def call(self, payload: bytes, seed: int) -> Reply:
        """Run a pickled (fn, config) as fn(**config), with the random generators seeded."""
        if self._closed:
            raise RuntimeError("these tasks are closed and take no further calls")
        start = time.monotonic()
        task = self._task.remote(payload, seed, self.threads)
        self._running.add(task)
        try:
            return ray.get(task)
        except ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())
            return Reply(None, f"Ray lost the process of this training run: {reason}", time.monotonic() - start)
        finally:
            self._running.discard(task)

    def close(self) -> None:
        """Cancel the tasks that still run, and end Ray if it was started here."""
        self._closed = True
        for task in list(self._running):
            ray.cancel(task, force=True)
        if self.is_local:
            ray.shutdown()
