"""The quantities that the chapter records. `rows` are transitions of a rollout."""

from rlrepro.evidence.schema import Quantity

RECORDS = (
    Quantity("fits", "yes/no", ("release", "rows", "gib", "network")),
    Quantity("fits_chunked", "yes/no", ("release", "rows", "gib", "network")),
    # live bytes allocated by one line of code, `line`, at points spread over `events` allocations and frees
    Quantity("live", "B in turn", ("release", "rows", "gib", "max_batchsize", "line", "events", "fits")),
    Quantity("peak", "B", ("release", "rows", "max_batchsize", "network")),
    Quantity("peak_by_chunk", "B", ("release", "rows", "max_batchsize")),
    Quantity("timeline", "B", ("release", "rows", "error")),
    Quantity("host_bytes_per_row", "B", ("release",)),
    Quantity("rows_host_memory_allows", "rows", ("release",)),
    # `at_least`: the longest rollout that was tried fitted
    Quantity("largest_rollout", "rows", ("release", "gib", "max_batchsize", "at_least")),
    Quantity("snippet_error", "text", ("release",)),
    Quantity("difference", "difference", ("dtype", "max_batchsize", "rows")),  # relative, of logp_old
    Quantity("training_difference", "difference", ("max_batchsize", "updates")),  # of weights
    Quantity("drift", "difference", ("run", "update", "max_batchsize")),  # of weights, after that many updates
    Quantity("training_same_returns", "yes/no", ("max_batchsize", "updates")),
    Quantity("time_ratio", "ratio", ("rows",)),  # fixed release over buggy release
    Quantity("chunks", "sizes", ("release", "rows", "max_batchsize")),
    Quantity("first_ratio_error", "difference", ("release", "distribution", "actions", "error")),
    Quantity("first_ratio_error_fixed", "difference", ("release", "actions")),
    # `twin` is GAIL or ICM, `stage` preprocess or update
    Quantity("twin_peak", "B", ("twin", "stage", "fixed", "rows", "max_batchsize")),
    Quantity("twin_difference", "difference", ("twin", "what", "rows", "max_batchsize")),
)
