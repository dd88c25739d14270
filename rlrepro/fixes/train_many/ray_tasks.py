"""Calls as tasks of Ray, on whichever machine of its cluster has free CPUs."""

import time

import ray

from .threads import thread_variables
from .worker_main import Reply, run_payload, timeout_message

MIN_QUEUED = 256  # tasks submitted to Ray at a time, at least
STREAM = {"num_returns": "streaming"}  # so that the driver learns when a queued task starts
TIMEOUT_SHARE = 0.95  # a run that took this share was killed by its timer: news of its start takes a moment


class RayTasks:
    """Runs each call as a task that takes `threads` CPUs and `gpus` GPUs: in the Ray session that is initialized,
    otherwise in the cluster at RAY_ADDRESS or on this machine, otherwise in a local one that it starts and that `close`
    shuts down. Raises ValueError if no current node has that many CPUs and GPUs.

    More tasks are submitted than fit, so that Ray's autoscaler sees them and a cluster that grows is used.
    """

    def __init__(self, threads: int, gpus: float | None, timeout: float | None, retries: int):
        self.threads, self.timeout, self.retries = threads, timeout, retries
        self.owns_session = not ray.is_initialized()
        if self.owns_session:
            ray.init(log_to_driver=False)
        self._running, self._closed = set(), False
        resources = {"CPU": threads, "GPU": gpus or 0}
        slots = sum(
            int(min(node["Resources"].get(name, 0) / amount + 1e-9 for name, amount in resources.items() if amount))
            for node in ray.nodes()
            if node["Alive"]
        )
        self.at_once = max(MIN_QUEUED, 2 * slots)
        if slots == 0:
            self.close()
            cards = f" and {gpus:g} GPUs" if gpus else ""
            raise ValueError(
                f"no node of this cluster has {threads} CPUs{cards} for a training run: ask for less, or add a node"
            )
        environment = {"env_vars": thread_variables(threads)}
        self._task = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=0, runtime_env=environment, **STREAM)(
            _stream
        )

    def call(self, payload: bytes, seed: int) -> Reply:
        """Run a pickled (fn, config) as fn(**config), with the random generators seeded."""
        if self._closed:
            raise RuntimeError("these tasks are closed and take no further calls")
        start = time.monotonic()
        for _ in range(self.retries + 1):
            started, stream = None, self._task.remote(payload, seed, self.threads, self.timeout)
            self._running.add(stream)
            try:
                ray.get(next(stream))
                started = time.monotonic()
                return ray.get(next(stream))
            except ray.exceptions.RayError as error:
                reason = " ".join(str(error).split())
            finally:
                self._running.discard(stream)
            ran = 0.0 if started is None else time.monotonic() - started
            if self.timeout is not None and ran >= TIMEOUT_SHARE * self.timeout:
                return Reply(None, timeout_message(self.timeout), ran)
            if self._closed:
                break
        return Reply(None, f"Ray lost the process of this training run: {reason}", time.monotonic() - start)

    def close(self) -> None:
        """Cancel the tasks that are still running, and end Ray if it was started here."""
        self._closed = True
        for task in list(self._running):
            ray.cancel(task, force=True)
        if self.owns_session:
            ray.shutdown()


def _stream(*args):
    yield None
    yield run_payload(*args)
