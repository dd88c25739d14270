"""Every quantity that the chapter measures, its unit, and the keys of its setting."""

from rlrepro.evidence import Quantity

# release: of torchrl; wait: "theirs" or "ours"; workers: environments of one ParallelEnv; seconds: of a step of each
WAIT = ("release", "wait", "workers", "seconds")

RECORDS = (
    Quantity("cores", "count"),
    Quantity("step", "s", WAIT),  # of ParallelEnv.step
    Quantity("parent_cpu", "ratio", WAIT),  # cores that the parent keeps busy, apart from when it waits for one
    Quantity("ours_ratio", "ratio", ("workers", "seconds")),  # time of a step, ours over theirs, in the newest release
    Quantity("crowd_ratio", "ratio", ("workers", "seconds")),  # theirs over ours
    Quantity("crowd_step", "s", ("wait", "workers", "seconds")),
    Quantity("throughput", "count", ("wait", "runs", "workers")),  # steps per second, of all runs together
    Quantity("side_by_side_ratio", "ratio", ("runs", "workers")),  # throughput, ours over theirs
    Quantity("wake_up", "s", ("workers",)),  # from the moment at which a worker is done
    Quantity("steps_late", "count", ("release", "wait")),  # of transitions after load_state_dict
)
