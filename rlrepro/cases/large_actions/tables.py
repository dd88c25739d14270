"""Tables of the chapter, in Markdown, each from records."""

from rlrepro.cases.large_actions import BATCH, CAPACITY, COPIES, EMBEDDED, account
from rlrepro.cases.large_actions.claims import stored_total, update_bytes
from rlrepro.lab.records import Records
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
    """The article's cures, alone and together: what is stored for `CAPACITY` transitions, and what one update takes."""
    most, _ = stored_total(records, features=1)
    integers = stored_total(records, features=1)[1] / most * count
    longest = max(records.series("large_actions.stored", "history", scheme="pearl", part="state"))
    at, with_history = stored_total(records, history=longest)
    history = with_history - stored_total(records, at, features=1)[1]
    bootstrap = stored_total(records, features=1, copies=COPIES)[1] - stored_total(records, most, features=1)[1]
    embedded = stored_total(records, most, features=EMBEDDED)[1] / most * count
    update = update_bytes(records, count, BATCH)
    ours = sum(record.value for record in records.where("large_actions.stored", scheme="ours"))
    our_update = records.get("large_actions.planned_peak", way="factored", actions=count, rows=BATCH).value
    rows = [
        ("integer actions, LSTM history, BootstrapReplayBuffer", integers + history + bootstrap, update),
        ("without the history", integers + bootstrap, update),
        ("usual buffer in place of the bootstrap one", integers + history, update),
        (f"embeddings of {EMBEDDED} numbers", embedded + history + bootstrap, update),
        ("without history, usual buffer: all that the article advises", integers, update),
        ("SharedActionBuffer and FactoredQ (one critic)", ours, our_update),
    ]
    lines = [f"| | {CAPACITY:,} transitions | one update of {BATCH} rows |", "|---|---|---|"]
    return "\n".join(
        lines + [f"| {name} | {format_value(a * CAPACITY, 'B')} | {format_value(b, 'B')} |" for name, a, b in rows]
    )
