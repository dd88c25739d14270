"""How many threads each of several processes may have, and how to limit a process to them."""

import operator
import sys

from loky import cpu_count
from threadpoolctl import threadpool_limits

VARIABLES = (  # that a library reads when it is loaded
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def thread_budget(n_jobs: int) -> int:
    """Threads for each of `n_jobs` processes at once, so that together they have no more than the cores that this
    process may use (its affinity and its cgroup's quota, not os.cpu_count()); 1 if there are more processes than cores.

    Raises ValueError if `n_jobs` is not a whole number of 1 or more.
    """
    return max(1, cpu_count() // at_least_one("n_jobs", n_jobs))


def thread_variables(threads: int) -> dict[str, str]:
    """Environment variables for a process that you start: torch, NumPy's BLAS and OpenMP read them when they
    load. Raises ValueError if `threads` is not a whole number of 1 or more."""
    return dict.fromkeys(VARIABLES, str(at_least_one("threads", threads)))


def limit_threads(threads: int) -> None:
    """Limit this process to `threads` threads, in the libraries that are already loaded: torch, BLAS and OpenMP."""
    threadpool_limits(at_least_one("threads", threads))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def at_least_one(name: str, value: int) -> int:
    """The value. Raises ValueError, which names it, if it is not a whole number of 1 or more."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"{name} must be a whole number of 1 or more, found {value!r}")
    return operator.index(value)
