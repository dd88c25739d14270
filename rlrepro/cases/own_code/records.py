"""The quantities that chapter 7 measures."""

from rlrepro.evidence.schema import Quantity

RECORDS = (
    Quantity("cost", "ratio", ("rule", "what")),  # the slow version over its fix
    Quantity("findings", "count", ("state",)),  # by the doctor in all runs; state: before or after the fixes
    Quantity("largest_pass", "rows", ("state",)),  # without gradients, in ppo.py
    Quantity("sample", "s", ("state",)),  # from the full buffer of world_model.py
    Quantity("train", "s", ("state",)),  # gradient steps of all runs of sweep.py
    Quantity("transition", "B", ("state",)),  # as recommender.py stores it
    Quantity("time", "s", ("state", "kind"), zero=True),  # of all processes of sweep.py
    Quantity("searched", "s", ("state",), zero=True),  # by newest/sac.py in searches for NaN
    Quantity("awake", "s", ("state",), zero=True),  # of newest/robots.py, while it waited for its workers
    Quantity("values", "B", ("state",)),  # of additional memory in the value pass of newest/frames.py
    Quantity("tried", "ratio", ("variables",)),  # gradient steps per second of sweep.py, with these over without
)
