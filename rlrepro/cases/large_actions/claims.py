"""What the article says of large action spaces, and how measurements judge it."""

from rlrepro.cases.large_actions import ACTIONS, ARTICLE_ACTIONS, BATCH, CAPACITY, CARD_GIB, COPIES, EMBEDDED
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.lab.units import format_value

CHAPTER = "05_large_action_spaces"

CARD = CARD_GIB * 2**30  # bytes
THOUSANDS = 1_000  # times, that count as "thousands of times"
ALIKE = 1.1  # a ratio up to which two sizes count as the same
LINEAR = (0.8, 1.2)  # exponents that count as growing in proportion
PER_ACTION = ("available now", "available next", "masks")  # parts of a transition that are there for every action
NOTICED = 0.1  # of a transition: a part from which it makes things worse


def source(records: Records) -> str:
    """What stands for Pearl in these records, in words."""
    found = records.where("large_actions.update_peak")[-1:]
    is_pearl = bool(found) and found[0].setting["source"] == "pearl"
    return "measured on Pearl" if is_pearl else "measured on a model of Pearl"


def stored_bytes(records: Records, count: int = ARTICLE_ACTIONS, *, parts=None, **setting) -> float:
    """Bytes of one transition (or of these parts of it) in Pearl's scheme with so many actions: what is there once for
    every action in proportion to the most that were measured, the rest as it was measured."""
    found = records.where("large_actions.stored", scheme="pearl", **({"history": None, "copies": None} | setting))
    most = max((record.setting["actions"] for record in found), default=None)
    if most is None:
        raise MissingRecord(f"no record of large_actions.stored with {setting}")
    sizes = {record.setting["part"]: record.value for record in found if record.setting["actions"] == most}
    return sum(
        size * (count / most if part in PER_ACTION else 1)
        for part, size in sizes.items()
        if parts is None or part in parts
    )


def besides_states(records: Records, count: int = ARTICLE_ACTIONS) -> float:
    """Of one transition with integer actions, without its two states."""
    states = stored_bytes(records, count, parts=("state", "next state"), features=1)
    return stored_bytes(records, count, features=1) - states


def update_bytes(records: Records, count: int, rows: int) -> float:
    """Of one update with so many actions and rows, in proportion to the largest one that was measured."""
    peaks = records.series("large_actions.update_peak", "actions", features=1)
    most = max(peaks)
    measured = records.get("large_actions.update_peak", actions=most, features=1)
    return measured.value / most / measured.setting["rows"] * count * rows


def judge_one_hot(records: Records) -> Verdict:
    stored = records.get("large_actions.torchrl_action", encoding="one-hot", actions=ACTIONS).value * CAPACITY
    batches = records.series("large_actions.batch_peak", "actions", encoding="one-hot")
    most, exponent = max(batches), growth_exponent(batches, batches.values())
    rows = records.get("large_actions.batch_peak", encoding="one-hot", actions=most).setting["rows"]
    batch = batches[most] / rows * BATCH * (ARTICLE_ACTIONS / most) ** exponent
    figure = (
        f"TorchRL's one-hot actions: {format_value(stored, 'B')} for {CAPACITY:,} transitions; Pearl's one-hot batch "
        f"of {BATCH}: actions^{exponent:.2f}, {format_value(batch, 'B')} with {ARTICLE_ACTIONS:,}"
    )
    why = f"more than {CARD_GIB:.0f} GiB count as exhausted; {source(records)}"
    if stored > CARD:
        return Verdict("supported", figure, why)
    if batch > CARD:
        return Verdict("partly", figure, f"not what is stored, but what Pearl makes of it for a batch; {why}")
    return Verdict("refuted", figure, why)


def judge_integer_bytes(records: Records) -> Verdict:
    hot, integer = (
        records.get("large_actions.torchrl_action", encoding=encoding, actions=ACTIONS).value
        for encoding in ("one-hot", "categorical")
    )
    with_it = besides_states(records)
    figure = (
        f"TorchRL: {integer:.0f} bytes against {hot:,.0f}, {hot / integer:,.0f} times; stored with an integer in "
        f"Pearl, besides the states: {format_value(with_it, 'B')} at {ARTICLE_ACTIONS:,} actions"
    )
    if hot / integer < THOUSANDS:
        return Verdict("refuted", figure, f"less than {THOUSANDS:,} times")
    if with_it > THOUSANDS * integer:
        return Verdict("partly", figure, f"true of the action, not of what is stored with it; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_integer_coding(records: Records) -> Verdict:
    update = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"with integers and {ARTICLE_ACTIONS:,} actions: {format_value(besides_states(records), 'B')} a transition "
        f"besides its states, and {format_value(update, 'B')} for an update of {BATCH} rows"
    )
    if update > CARD:
        return Verdict("refuted", figure, f"an update still needs more than {CARD_GIB:.0f} GiB; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_history(records: Records) -> Verdict:
    states = records.series("large_actions.stored", "history", scheme="pearl", part="state")
    exponent, longest = growth_exponent(states, states.values()), max(states)
    share = 2 * states[longest] / stored_bytes(records, features=1, history=longest)
    figure = (
        f"bytes of a state ~ length^{exponent:.2f}; at length {longest} {share:.0%} of a transition with "
        f"{ARTICLE_ACTIONS:,} actions"
    )
    if not LINEAR[0] <= exponent <= LINEAR[1]:
        return Verdict("refuted", figure, f"it does not grow with the history; {source(records)}")
    if share < NOTICED:
        return Verdict("partly", figure, f"it grows, and hardly counts; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_bootstrap(records: Records) -> Verdict:
    ratio = stored_bytes(records, features=1, copies=COPIES) / stored_bytes(records, features=1)
    figure = f"{ratio:.3f} times the bytes of the usual buffer, with {COPIES} members"
    if ratio <= ALIKE:
        return Verdict("refuted", figure, f"it stores one transition and a mask of its members; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_cpu_storage(records: Records) -> Verdict:
    moved = stored_bytes(records, features=1) * CAPACITY
    left = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"moved off the card: {format_value(moved, 'B')} of {CAPACITY:,} transitions; left on it: "
        f"{format_value(left, 'B')} of one update"
    )
    if left > CARD:
        return Verdict("refuted", figure, f"the update alone takes more than {CARD_GIB:.0f} GiB; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_embeddings(records: Records) -> Verdict:
    ratio = stored_bytes(records, features=EMBEDDED) / stored_bytes(records, features=1)
    figure = (
        f"{ratio:.3g} times the bytes of integers, with {EMBEDDED} numbers an action and {ARTICLE_ACTIONS:,} actions"
    )
    if ratio > ALIKE:
        why = "each transition holds the embeddings of all actions; a shared table would hold them once"
        return Verdict("refuted", figure, f"{why}; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_leak(records: Records) -> Verdict:
    peaks, held = (records.series(f"large_actions.since_start_{name}", "stored") for name in ("peak", "held"))
    before, after = max(n for n in peaks if n <= BATCH), max(peaks)
    figure = (
        f"an update's peak grows {peaks[before] / peaks[min(peaks)]:.3g} times until {before} transitions are stored, "
        f"then {peaks[after] / peaks[before]:.3g} times until {after}, while the buffer grows "
        f"{held[after] / held[before]:.3g} times"
    )
    if peaks[before] <= ALIKE * peaks[min(peaks)]:
        return Verdict("refuted", figure, f"it does not grow; {source(records)}")
    if peaks[after] <= ALIKE * peaks[before]:
        why = f"the update grows until there is a batch of {BATCH}, the buffer until its capacity: no leak"
        return Verdict("partly", figure, f"{why}; {source(records)}")
    return Verdict("supported", figure, source(records))


CLAIMS = [
    Claim(
        "LA1",
        "One-hot storage of tens of thousands of actions exhausts memory",
        CHAPTER,
        "The article's cures, one at a time",
        judge_one_hot,
    ),
    Claim(
        "LA2",
        "An integer takes 4 bytes, one-hot thousands of times more",
        CHAPTER,
        "The article's cures, one at a time",
        judge_integer_bytes,
    ),
    Claim("LA3", "Integer coding solves the memory problem", CHAPTER, "What is computed", judge_integer_coding),
    Claim(
        "LA4",
        "The history module's memory grows with its length and makes it worse",
        CHAPTER,
        "The article's cures, one at a time",
        judge_history,
    ),
    Claim(
        "LA5",
        "BootstrapReplayBuffer keeps several copies of the data",
        CHAPTER,
        "The article's cures, one at a time",
        judge_bootstrap,
    ),
    Claim(
        "LA6",
        "Storing on the CPU and moving only batches to the GPU solves it",
        CHAPTER,
        "What is computed",
        judge_cpu_storage,
    ),
    Claim("LA7", "Action embeddings compress further", CHAPTER, "The article's cures, one at a time", judge_embeddings),
    Claim("LA8", "Memory grows steadily until it is exhausted", CHAPTER, "Why it looks like a leak", judge_leak),
]
