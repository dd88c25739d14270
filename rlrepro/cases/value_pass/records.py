"""What the chapter records. `rows` are timesteps of a train batch; `way` is "released", "no_grad" (ours, but all at
once) or "chunked" (ours)."""

from rlrepro.evidence.schema import Quantity

_PASS = ("way", "rows", "minibatch", "network", "modules")

RECORDS = (
    Quantity("missing", "text"),  # why RLlib can't be imported here; None if it can
    Quantity("fits", "yes/no", ("way", "rows", "minibatch", "gib")),
    Quantity("peak", "B", _PASS),  # of the value pass
    Quantity("held", "B", _PASS, zero=True),  # after it, apart from its results
    Quantity("batch", "B", ("rows", "network")),  # the train batch itself
    Quantity("largest_call", "rows", _PASS),  # timesteps passed to the value network at once
    Quantity("with_gradients", "yes/no", _PASS),
    Quantity("live", "B", ("way", "rows", "minibatch", "stage"), zero=True),
    # of the connector's time, after the values are computed
    Quantity("share_held", "ratio", ("way", "rows", "minibatch")),
    Quantity("update_peak", "B", ("way", "rows", "minibatch", "network")),  # `way` may be "old stack"
    Quantity("difference", "difference", ("way", "rows", "size", "what")),  # relative to the largest
    Quantity("training_difference", "difference", ("minibatch", "updates", "moved")),  # of weights
    Quantity("time_ratio", "ratio", ("rows", "minibatch", "network")),  # ours over RLlib's
)
