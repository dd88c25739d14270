"""What the article says of large action spaces, and how measurements judge it."""

from rlrepro.cases.large_actions import ACTIONS, ARTICLE_ACTIONS, BATCH, CAPACITY, CARD_GIB, COPIES, EMBEDDED
from rlrepro.claims import Claim, Verdict
from rlrepro.figures import growth_exponent
from rlrepro.lab.records import Records
from rlrepro.lab.units import format_value

CHAPTER = "05_large_action_spaces"

CARD = CARD_GIB * 2**30  # bytes
THOUSANDS = 1_000  # times, that count as "thousands of times"
ALIKE = 1.1  # a ratio up to which two sizes count as the same
LINEAR = (0.8, 1.2)  # exponents that count as growing in proportion
NOTICED = 0.1  # of a transition: a part from which it makes things worse


def source(records: Records) -> str:
    """What stands for Pearl in these records, in words."""
    found = records.where("large_actions.update_peak")[-1:]
    is_pearl = bool(found) and found[0].setting["source"] == "pearl"
    return "measured on Pearl" if is_pearl else "measured on a model of Pearl"


def stored_total(records: Records, count: int | None = None, **setting) -> tuple[int, float]:
    """Bytes of one stored transition in Pearl's scheme, and with how many actions: the most measured, unless told."""
    found = records.where("large_actions.stored", scheme="pearl", **({"history": None, "copies": None} | setting))
    count = count or max(record.setting["actions"] for record in found)
    parts = {r.setting["part"]: r.value for r in found if r.setting["actions"] == count}
    return count, sum(parts.values())


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
    count, whole = stored_total(records, features=1)
    figure = (
        f"TorchRL: {integer:.0f} bytes against {hot:,.0f}, {hot / integer:,.0f} times; a transition of Pearl with "
        f"integer actions: {format_value(whole, 'B')} at {count:,} actions"
    )
    if hot / integer < THOUSANDS:
        return Verdict("refuted", figure, f"less than {THOUSANDS:,} times")
    if whole / count > 1:
        return Verdict("partly", figure, f"true of the action, not of what is stored with it; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_integer_coding(records: Records) -> Verdict:
    count, whole = stored_total(records, features=1)
    update = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"with integers: {whole / count:.1f} bytes stored for each action there is, and {format_value(update, 'B')} "
        f"for an update of {BATCH} rows with {ARTICLE_ACTIONS:,}"
    )
    if update > CARD:
        return Verdict("refuted", figure, f"more than {CARD_GIB:.0f} GiB are left; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_history(records: Records) -> Verdict:
    states = records.series("large_actions.stored", "history", scheme="pearl", part="state")
    exponent, longest = growth_exponent(states, states.values()), max(states)
    count, whole = stored_total(records, history=longest)
    share = 2 * states[longest] / whole
    figure = (
        f"bytes of a state ~ length^{exponent:.2f}; at length {longest} {share:.0%} of a transition with {count:,} "
        "actions"
    )
    if not LINEAR[0] <= exponent <= LINEAR[1]:
        return Verdict("refuted", figure, f"it does not grow with the history; {source(records)}")
    if share < NOTICED:
        return Verdict("partly", figure, f"it grows, and hardly counts; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_bootstrap(records: Records) -> Verdict:
    count, with_copies = stored_total(records, features=1, copies=COPIES)
    _, without = stored_total(records, count, features=1)
    figure = f"{with_copies / without:.3f} times the bytes of the usual buffer, with {COPIES} members"
    if with_copies / without <= ALIKE:
        return Verdict("refuted", figure, f"it stores one transition and a mask of its members; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_cpu_storage(records: Records) -> Verdict:
    count, whole = stored_total(records, features=1)
    moved = whole / count * ARTICLE_ACTIONS * CAPACITY
    left = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"moved off the card: {format_value(moved, 'B')} of {CAPACITY:,} transitions; left on it: "
        f"{format_value(left, 'B')} of one update"
    )
    if left > CARD:
        return Verdict("refuted", figure, f"the update alone takes more than {CARD_GIB:.0f} GiB; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_embeddings(records: Records) -> Verdict:
    count, integers = stored_total(records, features=1)
    _, embedded = stored_total(records, count, features=EMBEDDED)
    figure = f"{embedded / integers:.3g} times the bytes of integers, with {EMBEDDED} numbers an action"
    if embedded > ALIKE * integers:
        why = "each transition holds the embeddings of all actions; a shared table would hold them once"
        return Verdict("refuted", figure, f"{why}; {source(records)}")
    return Verdict("supported", figure, source(records))


def judge_leak(records: Records) -> Verdict:
    peaks = records.series("large_actions.since_start_peak", "stored")
    before, after = max(n for n in peaks if n <= BATCH), max(peaks)
    figure = (
        f"an update's peak grows {peaks[before] / peaks[min(peaks)]:.3g} times until {before} transitions are stored, "
        f"then {peaks[after] / peaks[before]:.3g} times until {after}"
    )
    if peaks[before] <= ALIKE * peaks[min(peaks)]:
        return Verdict("refuted", figure, f"it does not grow; {source(records)}")
    if peaks[after] <= ALIKE * peaks[before]:
        return Verdict("partly", figure, f"it grows until there is a batch of {BATCH}: no leak; {source(records)}")
    return Verdict("supported", figure, source(records))


CLAIMS = [
    Claim("LA1", "One-hot storage of tens of thousands of actions exhausts memory", CHAPTER, judge_one_hot),
    Claim("LA2", "An integer takes 4 bytes, one-hot thousands of times more", CHAPTER, judge_integer_bytes),
    Claim("LA3", "Integer coding solves the memory problem", CHAPTER, judge_integer_coding),
    Claim("LA4", "The history module's memory grows with its length and makes it worse", CHAPTER, judge_history),
    Claim("LA5", "BootstrapReplayBuffer keeps several copies of the data", CHAPTER, judge_bootstrap),
    Claim("LA6", "Storing on the CPU and moving only batches to the GPU solves it", CHAPTER, judge_cpu_storage),
    Claim("LA7", "Action embeddings compress further", CHAPTER, judge_embeddings),
    Claim("LA8", "Memory grows steadily until it is exhausted", CHAPTER, judge_leak),
]
