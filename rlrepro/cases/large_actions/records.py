"""The quantities that this case measures."""

from rlrepro.evidence.schema import Quantity

SOURCE = "source"  # "pearl" or, of the reimplementation, "model"
SIZE = ("actions", "rows")  # rows: states in the batch

RECORDS = (
    # bytes per transition; `scheme` is "pearl" or "ours", `copies` the ensemble members of a BootstrapReplayBuffer
    Quantity("stored", "B", ("scheme", "part", "actions", "features"), (SOURCE, "history", "copies")),
    Quantity("stored_ratio", "ratio", ("actions",)),
    Quantity("update_peak", "B", (*SIZE, "features", SOURCE)),
    Quantity("update_per_state", "B", ("actions", SOURCE)),  # what each further state of the batch adds to the peak
    Quantity("update_peak_factored", "B", (*SIZE, SOURCE)),
    Quantity("article_update", "B", ("way", *SIZE, SOURCE)),  # Pearl's whole update, at the article's size
    Quantity("batch_peak", "B", (*SIZE, "encoding", SOURCE)),
    Quantity("since_start_peak", "B", ("stored", "actions", SOURCE)),
    Quantity("since_start_held", "B", ("stored", "actions", SOURCE)),
    Quantity("torchrl_action", "B", ("encoding", "actions")),
    Quantity("torchrl_peak", "B", ("encoding", "actions")),
    # of one critic, `way` is "plain" or "factored"
    Quantity("planned_peak", "B", ("way", *SIZE)),
    Quantity("planned_ratio", "ratio", SIZE),
    Quantity("critic_peak", "B", ("way", *SIZE)),
    Quantity("value_difference", "difference"),
    Quantity("largest", "count", ("way",)),
    # `what` is "update" or "evaluation"
    Quantity("time_ratio", "ratio", (*SIZE, "what", "precision")),
    Quantity("floor_ratio", "ratio", (*SIZE, "what", "precision")),
    # of an update, by the memory limit of FactoredQ: its peak, and the plain critic's time over FactoredQ's
    Quantity("limit_peak", "B", ("memory_limit", *SIZE)),
    Quantity("limit_ratio", "ratio", ("memory_limit", *SIZE)),
    *(
        Quantity(f"training_{name}", "reward", ("method", "actions"))
        for name in ("reward", "best", "chance", "value", "true_value")
    ),
    Quantity("resident", "B", ("method",)),
    Quantity("resident_growth", "ratio", ("method",)),  # over the second half of the updates
)
