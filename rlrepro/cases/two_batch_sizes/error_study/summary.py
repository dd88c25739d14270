"""The results of the study, over the records of all machines."""

from pathlib import Path
from statistics import median

from rlrepro.evidence.records import Record, Records, read_records
from rlrepro.evidence.tables import markdown_table
from rlrepro.lab.units import number

NAME = "random_updates.jsonl"
FOR_CARDS = "random_plans_for_cards.jsonl"
CLOSE = 1.15  # planned over measured, up to which a plan for a GPU counts as close


def random_updates(results: str | Path) -> Records:
    """The records in the folders of `results`."""
    paths = [path for name in (NAME, FOR_CARDS) for path in sorted(Path(results).glob(f"*/{name}"))]
    return Records(record for path in paths for record in read_records(path))


def sentence(results: str | Path) -> str:
    """A sentence about how far plans were from runs."""
    stages = random_updates(results).all("two_batch_sizes.random_plan")
    close = sum(abs(stage.value - 1) <= 0.01 for stage in stages) / len(stages)
    below = sum(stage.setting["with_margin"] < 1 for stage in stages)
    updates = len({stage.setting["number"] for stage in stages})
    return (
        f"We planned {updates:,} random updates of random networks, and then ran them. For {close:.1%} of their "
        f"{len(stages):,} stages, the planned memory of the tensors is within 1% of what was measured; with the "
        f"margin, {below or 'none'} {'were' if below > 1 else 'was'} planned too small"
    )


def on_cards(results: str | Path) -> str:
    """The same for plans for a GPU, over what one allocated; empty if there are none."""
    plans = _plans_for_cards(results)
    if not plans:
        return ""
    cards = " and ".join(sorted({stage.setting["card"] for stages in plans.values() for stage in stages}))
    updates = len({stage.setting["number"] for stages in plans.values() for stage in stages})
    right = " and ".join(
        f"in {sum(1 <= stage.value <= CLOSE for stage in stages) / len(stages):.1%} of {len(stages):,} stages planned "
        f"{place}"
        for place, stages in plans.items()
    )
    return (
        f"On an {cards}, {updates:,} larger updates were measured. The plan lies between what was allocated there and "
        f"{CLOSE - 1:.0%} more {right}"
    )


def card_table(results: str | Path) -> str:
    """Plans for a GPU, over what one allocated: a Markdown table with rows for each kind of network."""
    rows = []
    for place, stages in _plans_for_cards(results).items():
        for kind in sorted({stage.setting["network"].split(", ")[0] for stage in stages}):
            of_kind = [stage for stage in stages if stage.setting["network"].startswith(kind)]
            ratios = sorted(stage.value for stage in of_kind)
            close, below = sum(1 <= ratio <= CLOSE for ratio in ratios), sum(ratio < 1 for ratio in ratios)
            reserved = [stage.setting["reserved"] for stage in of_kind if stage.setting["reserved"]]
            exact = f"{sum(abs(ratio - 1) <= 0.01 for ratio in reserved)} of {len(reserved)}"
            extremes = map(number, (ratios[0], median(ratios), ratios[-1]))
            rows.append((place, kind, len(ratios), close, below, *extremes, exact))
    if not rows:
        return "*Nothing was measured on a GPU yet.*"
    ratios = f"from 1 to {CLOSE:g}", "below 1", "smallest", "median", "largest"
    return markdown_table(("planned", "networks", "stages", *ratios, "reserved within 1%"), rows)


def _plans_for_cards(results: str | Path) -> dict[str, list[Record]]:
    """The plans for a GPU, by where they were made; places without plans are left out."""
    stages = random_updates(results).where("two_batch_sizes.random_plan_for_card")
    places = {"without a GPU": "cpu", "on the GPU": "cuda"}
    plans = {place: [stage for stage in stages if stage.device == device] for place, device in places.items()}
    return {place: stages for place, stages in plans.items() if stages}
