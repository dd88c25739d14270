"""What the article claims about large action spaces, and how measurements judge it."""

from functools import partial

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
from rlrepro.cases.large_actions.article import ARTICLE
from rlrepro.evidence.claims import Claim, Finding, Premise, Verdict
from rlrepro.evidence.estimates import growth
from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.evidence.rules import SAME, at_least, at_most, proportional
from rlrepro.lab.units import format_value

CARD = CARD_GIB * 2**30  # bytes
THOUSANDS = 1_000  # the smallest ratio that counts as "thousands of times"
SEVERAL = 2  # times the bytes, from which a buffer counts as keeping several copies
PER_ACTION = ("available now", "available next", "masks")  # parts of a transition with an entry per action
NOTICEABLE = 0.1  # the smallest share of a transition that makes things worse


def source(records: Records) -> str:
    """What was measured in these records, Pearl or its reimplementation, in words."""
    peaks = records.where("large_actions.update_peak")
    is_pearl = bool(peaks) and peaks[-1].setting["source"] == "pearl"
    return f"Pearl's numbers: from {'Pearl itself' if is_pearl else 'a reimplementation'}"


def stored_bytes(records: Records, count: int = ARTICLE_ACTIONS, *, parts=None, **setting) -> float:
    """Bytes of one transition in Pearl's scheme, or of these parts of it, with `count` actions. Parts with an entry per
    action are scaled from the largest number of actions measured; the others are as measured."""
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
    """Bytes of one update with `count` actions and `rows` states, scaled from what each state adds to the largest
    update measured."""
    measured = records.get("large_actions.update_per_state")
    return measured.value / measured.setting["actions"] * count * rows


def judge_one_hot(records: Records) -> Finding:
    stored = records.get("large_actions.torchrl_action", encoding="one-hot", actions=ACTIONS).value * CAPACITY
    batches = records.along("large_actions.batch_peak", "actions", encoding="one-hot")
    largest, exponent = max(batches), growth(batches)
    per_state = batches[largest].value / batches[largest].setting["rows"]
    batch = per_state * BATCH * (ARTICLE_ACTIONS / largest) ** exponent
    figure = (
        f"TorchRL's one-hot actions: {format_value(stored, 'B')} for {CAPACITY:,} transitions; Pearl's one-hot batch "
        f"of {BATCH} grows as actions^{exponent:.2f}, to {format_value(batch, 'B')} with {ARTICLE_ACTIONS:,} actions"
    )
    reasons = {"partly": "not what is stored, but the batch that Pearl makes of it"}
    return _finding(records, figure, [stored, max(stored, batch)], reasons)


def _finding(records: Records, figure: str, numbers, reasons: dict | None = None) -> Finding:
    """A finding whose figure also states whether Pearl or its reimplementation was measured."""
    return Finding(f"{figure}; {source(records)}", numbers, reasons or {})


def judge_integer_bytes(records: Records) -> Finding:
    one_hot, integer = (
        records.get("large_actions.torchrl_action", encoding=encoding, actions=ACTIONS).value
        for encoding in ("one-hot", "categorical")
    )
    pearl_bytes = bytes_without_states(records)
    stored_ratio = one_hot * ARTICLE_ACTIONS / ACTIONS / pearl_bytes
    figure = (
        f"TorchRL stores {one_hot:,.0f} bytes for a one-hot action, {one_hot / integer:,.0f} times the {integer:.0f} "
        f"of an integer. In Pearl, with {ARTICLE_ACTIONS:,} actions, a one-hot action would take "
        f"{stored_ratio:.3g} times as much as a transition with an integer action, "
        f"without its states ({format_value(pearl_bytes, 'B')})"
    )
    return _finding(
        records, figure, [one_hot / integer, stored_ratio], {"partly": "true of the action, but not of what is stored"}
    )


def judge_integer_coding(records: Records) -> Finding:
    update = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"with integers and {ARTICLE_ACTIONS:,} actions: {format_value(bytes_without_states(records), 'B')} per "
        f"transition without its states, and {format_value(update, 'B')} for an update of {BATCH} transitions"
    )
    return _finding(records, figure, [update], {"refuted": "an update still needs more"})


def judge_history(records: Records) -> Finding | Verdict:
    states = records.along("large_actions.stored", "history", scheme="pearl", part="state")
    exponent, longest = growth(states), max(states)
    share = 2 * states[longest].value / stored_bytes(records, features=1, history=longest)
    figure = (
        f"bytes of a state ~ length^{exponent:.2f}; at length {longest}, both states take {share:.0%} of a transition "
        f"with {ARTICLE_ACTIONS:,} actions"
    )
    if proportional("bytes").outcome(exponent) == "supported" and share < NOTICEABLE:
        return Verdict("partly", figure, f"it grows, but hardly counts; {source(records)}")
    return _finding(records, figure, [exponent], {"refuted": "it does not grow with the history"})


def judge_bootstrap(records: Records) -> Finding:
    ratio = stored_bytes(records, features=1, copies=COPIES) / stored_bytes(records, features=1)
    figure = f"{ratio:.3f} times the bytes of the usual buffer, with {COPIES} members"
    reasons = {"refuted": "it stores one transition and a mask of ensemble members"}
    return _finding(records, figure, [ratio], reasons)


def judge_cpu_storage(records: Records) -> Finding:
    buffer_bytes = stored_bytes(records, features=1) * CAPACITY
    update = update_bytes(records, ARTICLE_ACTIONS, BATCH)
    figure = (
        f"moved off the GPU: {format_value(buffer_bytes, 'B')} of {CAPACITY:,} transitions; left on it: "
        f"{format_value(update, 'B')} of one update"
    )
    return _finding(records, figure, [update], {"refuted": "the update alone takes more"})


def judge_embeddings(records: Records) -> Finding:
    ratio = stored_bytes(records, features=EMBEDDED) / stored_bytes(records, features=1)
    figure = f"{ratio:.3g} times the bytes of integers, with {ARTICLE_ACTIONS:,} actions of {EMBEDDED} numbers each"
    reasons = {"refuted": "each transition holds the embeddings of all actions, which a shared table would hold once"}
    return _finding(records, figure, [ratio], reasons)


def judge_leak(records: Records) -> Finding:
    peaks, buffer = (records.series(f"large_actions.since_start_{name}", "stored") for name in ("peak", "held"))
    full_batch, last = max(n for n in peaks if n <= BATCH), max(peaks)
    early, late = peaks[full_batch] / peaks[min(peaks)], peaks[last] / peaks[full_batch]
    figure = (
        f"an update's peak grows by a factor of {early:.3g} until {full_batch} transitions are stored, and of "
        f"{late:.3g} from there to {last}, where the buffer grows by {buffer[last] / buffer[full_batch]:.3g}"
    )
    reasons = {
        "partly": f"not a leak: the update grows until there is a batch of {BATCH}, the buffer until its capacity",
        "refuted": "it does not grow",
    }
    return _finding(records, figure, [late, max(early, late)], reasons)


CARD_LABEL = f"the {CARD_GIB:.0f} GiB of the GPU"


def judge_problem(records: Records) -> Finding:
    """The most memory that one-hot actions need, which is the problem that the article's advice should solve."""
    finding = judge_one_hot(records)
    return Finding(finding.figure, finding.numbers[1:])


PROBLEM = Premise("running out of memory", judge_problem, at_least(CARD, CARD_LABEL))

claim = partial(Claim, chapter=CHAPTER, article=ARTICLE)
fix_claim = partial(claim, section="The article's fixes, one at a time")
solution_claim = partial(claim, section="What is computed", rule=at_most(CARD, CARD_LABEL), premise=PROBLEM)

CLAIMS = [
    fix_claim(
        "LA1",
        "One-hot storage of tens of thousands of actions exhausts memory",
        judge=judge_one_hot,
        rule=at_least(CARD, CARD_LABEL),
    ),
    fix_claim(
        "LA2",
        "An integer takes 4 bytes, a one-hot vector thousands of times as much",
        judge=judge_integer_bytes,
        rule=at_least(THOUSANDS),
    ),
    solution_claim("LA3", "Integer coding solves the memory problem", judge=judge_integer_coding),
    fix_claim(
        "LA4",
        "The history module's memory grows with its length and makes the memory problem worse",
        judge=judge_history,
        rule=proportional("bytes"),
        premise=PROBLEM,
    ),
    fix_claim(
        "LA5",
        "BootstrapReplayBuffer keeps several copies of the data",
        judge=judge_bootstrap,
        rule=at_least(SEVERAL),
    ),
    solution_claim(
        "LA6",
        "Storing on the CPU and moving only batches to the GPU solves the memory problem",
        judge=judge_cpu_storage,
    ),
    fix_claim(
        "LA7",
        "Action embeddings compress further",
        judge=judge_embeddings,
        rule=at_most(1 / SAME),
        premise=PROBLEM,
    ),
    claim(
        "LA8",
        "Memory grows steadily until it is exhausted",
        section="Why it looks like a leak",
        judge=judge_leak,
        rule=at_least(SAME),
    ),
]
