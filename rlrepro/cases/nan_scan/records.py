"""What the chapter records. `stored` are transitions in the buffer, `incremental` is whether our fix is on."""

from rlrepro.evidence.schema import Quantity

RECORDS = (
    # how often a training run reads its whole buffer to look for NaN; `asked` is raise_on_nan_in_buffer
    Quantity("whole_reads", "count", ("release", "asked", "incremental", "collects")),
    Quantity("scan", "s", ("kind", "stored")),  # one call of hasnull
    Quantity("scan_memory", "B", ("kind", "stored", "incremental")),  # peak of host memory on top of the buffer
    Quantity("stored_bytes", "B", ("kind", "stored")),
    # a training run, from one collect to the next, and the share of that time spent looking for NaN
    Quantity("step", "s", ("release", "algorithm", "stored", "incremental", "environment_steps")),
    Quantity("share", "ratio", ("release", "algorithm", "stored", "incremental"), zero=True),
    Quantity("speedup", "ratio", ("algorithm", "stored")),  # of training by the fix
    Quantity("weight_difference", "difference", ("algorithm", "stored")),  # with the fix and without
    Quantity("collect_ratio", "ratio", ("stored", "part")),  # theirs over ours; part: check, or collect and check
    Quantity("predicted", "s", ("stored",)),  # per environment step, for the example of #1285
    Quantity("error", "text", ("part", "incremental")),  # that a NaN in this part of a transition raises
)
