"""The quantities that the chapter records. Sizes in a setting are numbers of transitions."""

from rlrepro.evidence.schema import Quantity

SIZES = ("rows", "max_batchsize", "batch_size")  # rows: of the rollout
RANDOM = ("number", "algorithm", "network", "dtype", "stage")  # of a random update

RECORDS = (
    Quantity("stage_peak", "B", ("release", "stage", "network", *SIZES)),
    Quantity("forwards", "count", ("release", "network", "gradients", *SIZES)),
    Quantity("largest_forward", "rows", ("release", "network", "gradients", *SIZES)),
    Quantity("fits", "yes/no", ("release", "network", *SIZES, "gib", "failed")),  # failed: the stage, or None
    Quantity("edge_case", "text", ("release", *SIZES)),  # the error, or None
    Quantity("largest_chunk", "rows", ("release", *SIZES)),
    Quantity("collecting", "B", ("release", "network", "envs", "no_grad", "with_gradients")),
    Quantity("plans_that_agree", "count", ("cells",)),
    Quantity("plan_over_run", "ratio", ("stage", "network", *SIZES)),
    Quantity("largest_batch", "rows", ("network", "gib", "at_least")),  # at_least: the whole rollout fits
    # planned over measured: tensors, and in the setting the plan with its margin over what was allocated
    Quantity("random_plan", "ratio", (*RANDOM, "with_margin")),
    # on a GPU: bytes that torch allocated and reserved; and a plan made elsewhere, over that (None: no trace)
    Quantity("random_update_on_card", "B", (*RANDOM, "reserved")),
    Quantity("random_plan_for_card", "ratio", (*RANDOM, "card", "reserved")),
)
