"""What the study found, over the records of every machine."""

from pathlib import Path

from rlrepro.evidence.records import Records, read_records

NAME = "random_updates.jsonl"


def random_updates(results: str | Path) -> Records:
    """The records in the folders of `results`."""
    return Records(each for path in sorted(Path(results).glob(f"*/{NAME}")) for each in read_records(path))


def sentence(results: str | Path) -> str:
    """How far plans were from runs."""
    stages = random_updates(results).all("two_batch_sizes.random_plan")
    close = sum(abs(each.value - 1) <= 0.01 for each in stages) / len(stages)
    worst = max((each.value for each in stages), key=lambda ratio: abs(ratio - 1))
    below = sum(each.setting["with_margin"] < 1 for each in stages)
    return (
        f"{len({each.setting['number'] for each in stages}):,} random updates of random networks were planned and then "
        f"run: the tensors of {close:.1%} of their {len(stages):,} stages are planned to within 1%, the worst at "
        f"{worst:.3f} of what was measured, and with its margin {below or 'none'} was planned too small"
    )
