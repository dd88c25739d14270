"""Tables and lines of the chapter, each from records."""

from rlrepro.cases.large_actions import ARTICLE_ACTIONS, BATCH, CAPACITY, COPIES, EMBEDDED, predicted_bytes
from rlrepro.cases.large_actions.claims import stored_bytes, update_bytes
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value


def transition_table(records: Records) -> str:
    """Each part of one stored transition with integer actions, as many as were measured: predicted, measured, ratio."""
    count = max(records.series("large_actions.stored", "actions", scheme="pearl"))
    lines = [f"One transition with {count:,} integer actions:", ""]
    lines += ["| part | predicted | measured | ratio |", "|---|---|---|---|"]
    for part, expected in predicted_bytes.transition(count, 1).items():
        measured = records.get(
            "large_actions.stored", scheme="pearl", part=part, actions=count, features=1, history=None, copies=None
        ).value
        lines.append(
            f"| {part} | {format_value(expected, 'B')} | {format_value(measured, 'B')} | {measured / expected:.3f} |"
        )
    return "\n".join(lines)


def update_table(records: Records) -> str:
    """Peak of the whole update by the number of actions: predicted, measured, ratio."""
    lines = ["| actions | batch size | predicted | measured | ratio |", "|---|---|---|---|---|"]
    for record in records.where("large_actions.update_peak", features=1):
        count, rows = record.setting["actions"], record.setting["rows"]
        expected = sum(predicted_bytes.update(count, 1).values()) * rows
        lines.append(
            f"| {count:,} | {rows} | {format_value(expected, 'B')} | {format_value(record.value, 'B')} | "
            f"{record.value / expected:.2f} |"
        )
    return "\n".join(lines)


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
    before = integers + history + bootstrap
    cells = [
        (f"integers, a history of {longest}, BootstrapReplayBuffer", before, update, plain),
        ("with one change: no history", before - history, update, plain),
        ("with one change: the usual buffer", before - bootstrap, update, plain),
        (f"with one change: embeddings of {EMBEDDED} numbers", before - integers + embedded, update, plain),
        ("all that the article advises: integers, no history, the usual buffer", integers, update, plain),
        ("SharedActionBuffer and FactoredQ", shared, "–", factored),
    ]
    lines = [f"| | {CAPACITY:,} transitions | an update of {BATCH} transitions | one critic of it |"]
    lines += ["|---|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {format_value(a * CAPACITY, 'B')} | {b} | {c} |" for name, a, b, c in cells])


def critic_table(records: Records) -> str:
    """Peak of one critic's update at each size that ran, planned and measured, plain and factored."""
    sizes = {(r.setting["actions"], r.setting["rows"]) for r in records.where("large_actions.critic_peak")}
    lines = ["| actions | batch size | way | planned | measured |", "|---|---|---|---|---|"]
    for count, rows in sorted(sizes):
        for way in ("plain", "factored"):
            setting = {"way": way, "actions": count, "rows": rows}
            planned = records.get("large_actions.planned_peak", **setting).value
            measured = records.where("large_actions.critic_peak", **setting)
            result = format_value(measured[-1].value, "B") if measured else "not run"
            lines.append(f"| {count:,} | {rows} | {way} | {format_value(planned, 'B')} | {result} |")
    return "\n".join(lines)


def time_table(records: Records) -> str:
    """How many times longer the plain way takes than FactoredQ, and FactoredQ than its matrix products alone."""
    lines = ["| actions | batch size | | precision | plain / FactoredQ | FactoredQ / its products |"]
    lines += ["|---|---|---|---|---|---|"]
    for floor in records.where("large_actions.floor_ratio"):
        setting = floor.setting
        plain = records.where("large_actions.time_ratio", **setting)
        ratios = [_with_spread(plain[-1]) if plain else "not run", _with_spread(floor)]
        size = f"{setting['actions']:,} | {setting['rows']} | {setting['what']} | {setting['precision']}"
        lines.append(f"| {size} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def _with_spread(record) -> str:
    value, low, high = (format_value(each, record.unit) for each in (record.value, *record.spread))
    return f"{value} ({low} to {high})"


def training_table(records: Records) -> str:
    """What each training run reached, and the memory of its process."""
    names = [f"training_{name}" for name in ("reward", "best", "chance", "value", "true_value")]
    names += ["resident", "resident_growth"]
    headings = ["method", "`reward`", "`best`", "`chance`", "`value`", "`true_value`", "memory at most", "last / first"]
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for method in dict.fromkeys(record.setting["method"] for record in records.where("large_actions.resident")):
        row = (records.get(f"large_actions.{name}", method=method) for name in names)
        lines.append(f"| {method} | " + " | ".join(format_value(each.value, each.unit) for each in row) + " |")
    return "\n".join(lines)
