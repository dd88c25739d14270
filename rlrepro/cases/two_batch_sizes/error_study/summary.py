"""The results of the study, over the records of all machines."""

from pathlib import Path

from rlrepro.evidence.records import Records, read_records

NAME = "random_updates.jsonl"
FOR_CARDS = "random_plans_for_cards.jsonl"


def random_updates(results: str | Path) -> Records:
    """The records in the folders of `results`."""
    return Records(record for path in sorted(Path(results).glob(f"*/{NAME}")) for record in read_records(path))


def sentence(results: str | Path) -> str:
    """A sentence about how far plans were from runs."""
    stages = random_updates(results).all("two_batch_sizes.random_plan")
    close = sum(abs(stage.value - 1) <= 0.01 for stage in stages) / len(stages)
    worst = max((stage.value for stage in stages), key=lambda ratio: abs(ratio - 1))
    below = sum(stage.setting["with_margin"] < 1 for stage in stages)
    updates = len({stage.setting["number"] for stage in stages})
    return (
        f"We planned {updates:,} random updates of random networks, and then ran them. For {close:.1%} of their "
        f"{len(stages):,} stages, the planned memory of the tensors is within 1% of what was measured (the worst is "
        f"{worst:.3f} times that); with the margin, {below or 'none'} was planned too small"
    )
