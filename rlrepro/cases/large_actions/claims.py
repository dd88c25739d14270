"""What the article claims about large action spaces, and how measurements judge it."""

from rlrepro.cases.large_actions import (
    ACTIONS,
    ARTICLE_ACTIONS,
    BATCH,
    CAPACITY,
    CARD_GIB,
    CHAPTER,
    COPIES,
    EMBEDDED,
)
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.lab.units import format_value

CARD = CARD_GIB * 2**30  # bytes
THOUSANDS = 1_000  # the smallest ratio that counts as "thousands of times"
ALIKE = 1.1  # the largest ratio at which two sizes count as the same
LINEAR = (0.8, 1.2)  # exponents that count as proportional growth
PER_ACTION = ("available now", "available next", "masks")  # parts of a transition with an entry per action
NOTICEABLE = 0.1  # the smallest share of a transition that makes things worse


def source(records: Records) -> str:
    """What was measured in these records, Pearl or its reimplementation, in words."""
    peaks = records.where("large_actions.update_peak")
    is_pearl = bool(peaks) and peaks[-1].setting["source"] == "pearl"
    return "measured on Pearl" if is_pearl else "measured on a reimplementation of Pearl"


def stored_bytes(records: Records, count: int = ARTICLE_ACTIONS, *, parts=None, **setting) -> float:
    """Bytes of one transition in Pearl's scheme, or of these parts of it, with `count` actions: parts with an entry per
    action are scaled from the largest number of actions measured, the others are as measured."""
    stored = records.where("large_actions.stored", scheme="pearl", **({"history": None, "copies": None} | setting))
    largest = max((record.setting["actions"] for record in stored), default=None)
    if largest is None:
        raise MissingRecord(f"no record of large_actions.stored with {setting}")
    sizes = {record.setting["part"]: record.value for record in stored if record.setting["actions"] == largest}
    return sum(
        size * (count / largest if part in PER_ACTION else 1)
        for part, size in sizes.items()
        if parts is None or part in parts
    )


def bytes_without_states(records: Records, count: int = ARTICLE_ACTIONS) -> float:
    """Bytes of one transition with integer actions, without its two states."""
    states = stored_bytes(records, count, parts=("state", "next state"), features=1)
    return stored_bytes(records, count, features=1) - states


def update_bytes(records: Records, count: int, rows: int) -> float:
    """Bytes of one update with `count` actions and `rows` states, scaled from the largest one measured."""
    largest = max(records.series("large_actions.update_peak", "actions", features=1))
    measured = records.get("large_actions.update_peak", actions=largest, features=1)
    return measured.value / largest / measured.setting["rows"] * count * rows


def judge_one_hot(records: Records) -> Verdict:
    stored = records.get("large_actions.torchrl_action", encoding="one-hot", actions=ACTIONS).value * CAPACITY
    batches = records.series("large_actions.batch_peak", "actions", encoding="one-hot")
    largest, exponent = max(batches), growth_exponent(batches, batches.values())
    rows = records.get("large_actions.batch_peak", encoding="one-hot", actions=largest).setting["rows"]
    batch = batches[largest] / rows * BATCH * (ARTICLE_ACTIONS / largest) ** exponent
    figure = (
        f"TorchRL's one-hot actions: {format_value(stored, 'B')} for {CAPACITY:,} transitions; Pearl's one-hot batch "
        f"of {BATCH}: actions^{exponent:.2f}, {format_value(batch, 'B')} with {ARTICLE_ACTIONS:,}"
    )
    why = f"exhausted means more than {CARD_GIB:.0f} GiB; {source(records)}"
    if stored > CARD:
        return Verdict("supported", figure, why)
    if batch > CARD:
        return Verdict("partly", figure, f"not what is stored, but the batch that Pearl makes of it; {why}")
    return Verdict("refuted", figure, why)


def judge_integer_bytes(records: Records) -> Verdict:
    hot, integer = (
        records.get("large_actions.torchrl_action", encoding=encoding, actions=ACTIONS).value
        for encoding in ("one-hot", "categorical")
    )
    in_pearl = bytes_without_states(records)
    figure = (
        f"TorchRL: {integer:.0f} bytes against {hot:,.0f}, {hot / integer:,.0f} times; a transition of Pearl with an "
        f"integer action, without its states: {format_value(in_pearl, 'B')} at {ARTICLE_ACTIONS:,} actions"
    )
    if hot / integer < THOUSANDS:
        return Verdict("refuted", figure, f"less than {THOUSANDS:,} times")
    if in_pearl > THOUSANDS * integer:
        return Verdict("partly", figure, f"true of the action, but not of what is stored with it; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_integer_coding(records: Records) -> Verdict:
    update = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"with integers and {ARTICLE_ACTIONS:,} actions: {format_value(bytes_without_states(records), 'B')} per "
        f"transition without its states, and {format_value(update, 'B')} for an update of {BATCH} transitions"
    )
    if update > CARD:
        return Verdict("refuted", figure, f"an update still needs more than {CARD_GIB:.0f} GiB; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_history(records: Records) -> Verdict:
    states = records.series("large_actions.stored", "history", scheme="pearl", part="state")
    exponent, longest = growth_exponent(states, states.values()), max(states)
    share = 2 * states[longest] / stored_bytes(records, features=1, history=longest)
    figure = (
        f"bytes of a state ~ length^{exponent:.2f}; at length {longest}, {share:.0%} of a transition with "
        f"{ARTICLE_ACTIONS:,} actions"
    )
    if not LINEAR[0] <= exponent <= LINEAR[1]:
        return Verdict("refuted", figure, f"it does not grow with the history; {source(records)}")
    if share < NOTICEABLE:
        return Verdict("partly", figure, f"it grows, but hardly counts; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_bootstrap(records: Records) -> Verdict:
    ratio = stored_bytes(records, features=1, copies=COPIES) / stored_bytes(records, features=1)
    figure = f"{ratio:.3f} times the bytes of the usual buffer, with {COPIES} members"
    if ratio <= ALIKE:
        return Verdict("refuted", figure, f"it stores one transition and a mask of ensemble members; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_cpu_storage(records: Records) -> Verdict:
    moved = stored_bytes(records, features=1) * CAPACITY
    update = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"moved off the card: {format_value(moved, 'B')} of {CAPACITY:,} transitions; left on it: "
        f"{format_value(update, 'B')} of one update"
    )
    if update > CARD:
        return Verdict("refuted", figure, f"the update alone takes more than {CARD_GIB:.0f} GiB; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_embeddings(records: Records) -> Verdict:
    ratio = stored_bytes(records, features=EMBEDDED) / stored_bytes(records, features=1)
    figure = f"{ratio:.3g} times the bytes of integers, with {ARTICLE_ACTIONS:,} actions of {EMBEDDED} numbers each"
    if ratio > ALIKE:
        why = "each transition holds the embeddings of all actions, which a shared table would hold once"
        return Verdict("refuted", figure, f"{why}; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_leak(records: Records) -> Verdict:
    peaks, held = (records.series(f"large_actions.since_start_{name}", "stored") for name in ("peak", "held"))
    before, after = max(n for n in peaks if n <= BATCH), max(peaks)
    figure = (
        f"an update's peak grows by {peaks[before] / peaks[min(peaks)]:.3g}× until {before} transitions are stored, "
        f"then by {peaks[after] / peaks[before]:.3g}× until {after}, while the buffer grows by "
        f"{held[after] / held[before]:.3g}×"
    )
    if peaks[before] <= ALIKE * peaks[min(peaks)]:
        return Verdict("refuted", figure, f"it does not grow; {source(records)}")
    if peaks[after] <= ALIKE * peaks[before]:
        why = f"the update grows until there is a batch of {BATCH}, the buffer until its capacity: it is not a leak"
        return Verdict("partly", figure, f"{why}; {source(records)}")
    return Verdict("supported", figure, source(records))


CLAIMS = [
    Claim(
        "LA1",
        "One-hot storage of tens of thousands of actions exhausts memory",
        CHAPTER,
        "The article's fixes, one at a time",
        judge_one_hot,
    ),
    Claim(
        "LA2",
        "An integer takes 4 bytes, one-hot thousands of times more",
        CHAPTER,
        "The article's fixes, one at a time",
        judge_integer_bytes,
    ),
    Claim("LA3", "Integer coding solves the memory problem", CHAPTER, "What is computed", judge_integer_coding),
    Claim(
        "LA4",
        "The history module's memory grows with its length and makes it worse",
        CHAPTER,
        "The article's fixes, one at a time",
        judge_history,
    ),
    Claim(
        "LA5",
        "BootstrapReplayBuffer keeps several copies of the data",
        CHAPTER,
        "The article's fixes, one at a time",
        judge_bootstrap,
    ),
    Claim(
        "LA6",
        "Storing on the CPU and moving only batches to the GPU solves it",
        CHAPTER,
        "What is computed",
        judge_cpu_storage,
    ),
    Claim("LA7", "Action embeddings compress further", CHAPTER, "The article's fixes, one at a time", judge_embeddings),
    Claim("LA8", "Memory grows steadily until it is exhausted", CHAPTER, "Why it looks like a leak", judge_leak),
]
