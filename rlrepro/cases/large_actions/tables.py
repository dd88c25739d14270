"""Tables of the chapter, in Markdown, each from records."""

from rlrepro.cases.large_actions import BATCH, CAPACITY, COPIES, EMBEDDED
from rlrepro.cases.large_actions import predicted_bytes as account
from rlrepro.cases.large_actions.claims import stored_bytes, update_bytes
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value


def transition_table(records: Records, count: int) -> str:
    """Each part of one stored transition with integer actions: predicted, measured, ratio."""
    predicted, lines = account.transition(count, 1), ["| part | predicted | measured | ratio |", "|---|---|---|---|"]
    for part, expected in predicted.items():
        found = records.get(
            "large_actions.stored", scheme="pearl", part=part, actions=count, features=1, history=None, copies=None
        ).value
        lines.append(
            f"| {part} | {format_value(expected, 'B')} | {format_value(found, 'B')} | {found / expected:.3f} |"
        )
    return "\n".join(lines)


def update_table(records: Records) -> str:
    """Peak of the whole update: predicted, measured, ratio, by the number of actions."""
    lines = ["| actions | rows | predicted | measured | ratio |", "|---|---|---|---|---|"]
    for record in records.where("large_actions.update_peak", features=1):
        count, rows = record.setting["actions"], record.setting["rows"]
        expected = sum(account.update(count, 1).values()) * rows
        lines.append(
            f"| {count:,} | {rows} | {format_value(expected, 'B')} | {format_value(record.value, 'B')} | "
            f"{record.value / expected:.2f} |"
        )
    return "\n".join(lines)


def cure_table(records: Records, count: int) -> str:
    """The article's cures, each alone and together: `CAPACITY` transitions with the states, one whole update, and one
    critic of it forward and backward."""
    longest = max(records.series("large_actions.stored", "history", scheme="pearl", part="state"))
    integers = stored_bytes(records, count, features=1)
    history = stored_bytes(records, count, features=1, history=longest) - integers
    bootstrap = stored_bytes(records, count, features=1, copies=COPIES) - integers
    embedded = stored_bytes(records, count, features=EMBEDDED)
    ours = sum(record.value for record in records.where("large_actions.stored", scheme="ours"))
    update = format_value(update_bytes(records, count, BATCH), "B")
    plain, factored = (
        format_value(records.get("large_actions.planned_peak", way=way, actions=count, rows=BATCH).value, "B")
        for way in ("plain", "factored")
    )
    before = integers + history + bootstrap
    rows = [
        (f"integers, a history of {longest}, BootstrapReplayBuffer", before, update, plain),
        ("only this changed: no history", before - history, update, plain),
        ("only this changed: the usual buffer", before - bootstrap, update, plain),
        (f"only this changed: embeddings of {EMBEDDED} numbers", before - integers + embedded, update, plain),
        ("all the article advises: integers, no history, the usual buffer", integers, update, plain),
        ("SharedActionBuffer and FactoredQ", ours, "–", factored),
    ]
    lines = [f"| | {CAPACITY:,} transitions | an update of {BATCH} rows | one critic of it |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {format_value(a * CAPACITY, 'B')} | {b} | {c} |" for name, a, b, c in rows])
