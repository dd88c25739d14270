"""Tables of the chapter in Markdown, each from records."""

from rlrepro.cases.large_actions import ARTICLE_ACTIONS, BATCH, CAPACITY, COPIES, EMBEDDED, predicted_bytes
from rlrepro.cases.large_actions.claims import stored_bytes, update_bytes
from rlrepro.evidence.records import Record, Records
from rlrepro.evidence.tables import markdown_table
from rlrepro.lab.units import format_value


def transition_table(records: Records) -> str:
    """Each part of one stored transition, with the most integer actions measured: predicted, measured, ratio."""
    count, rows = max(records.series("large_actions.stored", "actions", scheme="pearl")), []
    for part, expected in predicted_bytes.transition(count, 1).items():
        setting = {"scheme": "pearl", "part": part, "actions": count, "features": 1, "history": None, "copies": None}
        stored = records.get("large_actions.stored", **setting).value
        rows.append((part, format_value(expected, "B"), format_value(stored, "B"), f"{stored / expected:.3f}"))
    return markdown_table((f"part, with {count:,} integer actions", "predicted", "measured", "ratio"), rows)


def update_table(records: Records) -> str:
    """Peak of the whole update by the number of actions, and what a further state adds: predicted, measured, ratio."""
    rows = []
    for record in (
        *records.where("large_actions.update_peak", features=1),
        records.get("large_actions.update_per_state"),
    ):
        count, batch_size = record.setting["actions"], record.setting.get("rows")
        expected = sum(predicted_bytes.update(count, 1).values()) * (batch_size or 1)
        ratio = f"{record.value / expected:.3f}"
        batch_size = batch_size or "each further state"
        rows.append((f"{count:,}", batch_size, format_value(expected, "B"), format_value(record.value, "B"), ratio))
    return markdown_table(("actions", "batch size", "predicted", "measured", "ratio"), rows)


def fix_table(records: Records) -> str:
    """The article's fixes at its number of actions, each alone and together: `CAPACITY` transitions with the states,
    one whole update, and one critic's forward and backward pass."""
    longest = max(records.series("large_actions.stored", "history", scheme="pearl", part="state"))
    integers = stored_bytes(records, features=1)
    history = stored_bytes(records, features=1, history=longest) - integers
    bootstrap = stored_bytes(records, features=1, copies=COPIES) - integers
    embedded = stored_bytes(records, features=EMBEDDED)
    shared = sum(record.value for record in records.where("large_actions.stored", scheme="ours"))
    update = format_value(update_bytes(records, ARTICLE_ACTIONS, BATCH), "B")
    plain, factored = (
        format_value(records.get("large_actions.planned_peak", way=way, actions=ARTICLE_ACTIONS, rows=BATCH).value, "B")
        for way in ("plain", "factored")
    )
    baseline = integers + history + bootstrap
    rows = [
        (f"integers, a history of {longest}, BootstrapReplayBuffer", baseline, update, plain),
        ("with one change: no history", baseline - history, update, plain),
        ("with one change: the usual buffer", baseline - bootstrap, update, plain),
        (f"with one change: embeddings of {EMBEDDED} numbers", baseline - integers + embedded, update, plain),
        ("all that the article advises: integers, no history, the usual buffer", integers, update, plain),
        ("SharedActionBuffer and FactoredQ", shared, "–", factored),
    ]
    rows = [(name, format_value(size * CAPACITY, "B"), *peaks) for name, size, *peaks in rows]
    return markdown_table(
        ("", f"{CAPACITY:,} transitions", f"an update of {BATCH} transitions", "one of its critics"), rows
    )


def critic_table(records: Records) -> str:
    """Peak of one critic's update at each size that ran, planned and measured, plain and factored."""
    rows = []
    for count, batch_size in sorted({_size(record) for record in records.where("large_actions.critic_peak")}):
        for way in ("plain", "factored"):
            setting = {"way": way, "actions": count, "rows": batch_size}
            planned = records.get("large_actions.planned_peak", **setting).value
            peaks = records.where("large_actions.critic_peak", **setting)
            measured = format_value(peaks[-1].value, "B") if peaks else "not run"
            rows.append((f"{count:,}", batch_size, way, format_value(planned, "B"), measured))
    return markdown_table(("actions", "batch size", "critic", "planned", "measured"), rows)


def time_table(records: Records) -> str:
    """How many times longer the plain critic takes than FactoredQ, and FactoredQ than its matrix products alone."""
    rows = []
    for floor in records.where("large_actions.floor_ratio"):
        count, batch_size = _size(floor)
        plain = records.where("large_actions.time_ratio", **floor.setting)
        ratio = _with_spread(plain[-1]) if plain else "not run"
        workload, precision = floor.setting["what"], floor.setting["precision"]
        rows.append((f"{count:,}", batch_size, workload, precision, ratio, _with_spread(floor)))
    headings = "actions", "batch size", "", "precision", "plain / FactoredQ", "FactoredQ / its matrix products"
    return markdown_table(headings, rows)


def limit_table(records: Records) -> str:
    """FactoredQ's update by its memory limit: its peak, and the plain critic's time over its own."""
    rows = []
    for ratio in records.where("large_actions.limit_ratio"):
        peak = records.get("large_actions.limit_peak", **ratio.setting)
        count, batch_size = _size(ratio)
        sizes = (format_value(size, "B") for size in (ratio.setting["memory_limit"], peak.value))
        rows.append((f"{count:,}", batch_size, *sizes, _with_spread(ratio)))
    return markdown_table(("actions", "batch size", "`memory_limit`", "peak", "plain / FactoredQ"), rows)


def training_table(records: Records) -> str:
    """What each training run reached, and the resident memory of its process."""
    names = ("reward", "best", "chance", "value", "true_value")
    quantities = [*(f"training_{name}" for name in names), "resident", "resident_growth"]
    rows = []
    for method in dict.fromkeys(record.setting["method"] for record in records.where("large_actions.resident")):
        values = [records.get(f"large_actions.{name}", method=method) for name in quantities]
        rows.append((method, f"{values[0].setting['actions']:,}", *(format_value(r.value, r.unit) for r in values)))
    return markdown_table(
        ("method", "actions", *(f"`{name}`" for name in names), "resident memory", "its growth"), rows
    )


def _size(record: Record) -> tuple[int, int]:
    return record.setting["actions"], record.setting["rows"]


def _with_spread(record: Record) -> str:
    value, low, high = (format_value(number, record.unit) for number in (record.value, *record.spread))
    return f"{value} ({low} to {high})"
