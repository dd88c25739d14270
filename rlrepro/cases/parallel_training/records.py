"""Every quantity that the chapter measures, its unit, and the keys of its setting."""

from rlrepro.evidence import Quantity

# way: how the runs were started; processes: at once; threads: of each ("default" are torch's own, "framework" what the
# framework sets, "all" as many as cores); net: "large" or "small"; waits: how threads wait for each other
RUN = ("way", "processes", "threads")
OPTIONAL = ("net", "method", "waits")

LAUNCHED = (  # what `launch` returns, as a mean over the runs
    Quantity("step", "s", RUN, OPTIONAL),  # one gradient step
    Quantity("step_cpu", "s", RUN, OPTIONAL),
    Quantity("row", "s", RUN, OPTIONAL),  # one step of the environment
    Quantity("train", "s", RUN, OPTIONAL),
    Quantity("rollout", "s", RUN, OPTIONAL),
    Quantity("seconds", "s", RUN, OPTIONAL),
    Quantity("span", "s", RUN, OPTIONAL),  # from the first beginning to the last end
    Quantity("wall", "s", RUN, OPTIONAL),  # the same with starting the processes
    Quantity("torch_threads", "count", RUN, OPTIONAL),
    Quantity("runnable", "count", RUN, OPTIONAL),  # threads of all processes that run or wait for a core
    Quantity("taken_away", "count", RUN, OPTIONAL),  # how often the system took a core, per gradient step
    Quantity("given_up", "count", RUN, OPTIONAL),
    Quantity("device_bytes", "B", RUN, OPTIONAL, zero=True),  # held by all processes together
)

RECORDS = (
    Quantity("cores", "count"),
    *LAUNCHED,
    Quantity("of_ideal", "ratio", ("way", "processes")),  # throughput, over that of as many cores as processes can use
    Quantity("fork_waits", "yes/no"),
    Quantity("sharing_gain", "ratio", ("processes",)),
    Quantity("bytes_a_process", "B", ("processes",)),
    Quantity("pool_over_train_many", "ratio", ("processes",)),
    Quantity("overhead", "ratio", ("way", "trainings")),
    Quantity("member_difference", "difference", ("member",)),
    Quantity("members_rollout", "s", ("way", "members")),
    Quantity("members_train", "s", ("way", "members")),
    Quantity("ensemble_ratio", "ratio", ("phase", "members")),
    Quantity("members_ratio", "ratio", ("members",)),
    Quantity("members_step", "s", ("members",)),
    Quantity("buffers", "count", ("way", "run")),  # rollout buffers in memory at the same time, in sequential runs
    Quantity("buffer_bytes", "B", ("way", "run")),  # of their arrays
    Quantity("over_products", "ratio", ("members",)),  # a gradient step of all, over its matrix products alone
)
