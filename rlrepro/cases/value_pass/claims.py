"""What the threads say about the value pass, what we say, and how measurements judge it."""

import numpy as np

from rlrepro.cases.value_pass import CHAPTER
from rlrepro.evidence.claims import Claim, Finding, Verdict
from rlrepro.evidence.estimates import estimate, growth_exponent
from rlrepro.evidence.records import Records
from rlrepro.evidence.rules import Rule, longer
from rlrepro.lab.units import format_value

LINEAR = (0.9, 1.05)  # exponents that count as growing with the train batch; constant terms flatten small ones
FLAT = 0.05  # the exponent up to which memory counts as bounded
DOUBLE = 2  # "more than twice", in #58679
ALIKE = 1.25  # a peak of up to that many times another one counts as the same
ROUNDING = 1e-4  # relative difference that float32 sums in another order explain; standardizing amplifies it
LEFT = 0.01  # of the graph: up to there it counts as dropped; a GPU's allocator rounds up what the results take
HALF = 0.5  # of the excess: from there on, a cause counts as explaining it


def judge_whole_batch(records: Records) -> Verdict:
    peaks = records.series("value_pass.peak", "rows", way="released", modules=1)
    calls = records.series("value_pass.largest_call", "rows", way="released", modules=1)
    exponent = growth_exponent(peaks, peaks.values())
    whole_batch = all(calls[rows] >= rows for rows in peaks)
    figure = (
        f"{calls[max(calls)]:,.0f} timesteps in one call; peak ~ timesteps^{exponent:.2f}, "
        f"{format_value(max(peaks.values()), 'B')} at {max(peaks):,} timesteps"
    )
    linear = LINEAR[0] <= exponent <= LINEAR[1]
    reason = f"exponents from {LINEAR[0]} to {LINEAR[1]} count as proportional to the train batch"
    return Verdict("supported" if whole_batch and linear else "refuted", figure, reason)


def judge_gradients(records: Records) -> Verdict:
    rows = max(records.series("value_pass.peak", "rows", way="released", modules=1))
    released, without, ours = (
        records.get("value_pass.peak", way=way, rows=rows, modules=1).value
        for way in ("released", "no_grad", "chunked")
    )
    recorded = records.get("value_pass.with_gradients", way="released", rows=rows, modules=1).value
    figure = (
        f"at {rows:,} timesteps: {format_value(released, 'B')} as released, {format_value(without, 'B')} without "
        f"gradients, {format_value(ours, 'B')} without gradients and in chunks"
    )
    if released <= ALIKE * ours:
        return Verdict(
            "not testable here", figure, f"the value pass takes at most {ALIKE:g} times what it takes in chunks"
        )
    if not recorded or released < ALIKE * without:
        return Verdict("refuted", figure, "no gradients are recorded, or they take no memory")
    if without <= ALIKE * ours:
        return Verdict("supported", figure, "without gradients, nothing is left to gain")
    return Verdict("partly", figure, "gradients are recorded and take memory, but the whole batch at once takes more")


def judge_double(records: Records) -> Verdict:
    old, new, _ = _thread(records)
    figure = f"{format_value(new, 'B')}, which is {new / old:.1f} times the {format_value(old, 'B')} of the old stack"
    reason = (
        "tensors of one update with an LSTM, at the thread's sizes; on a CPU, the train batch itself is not counted"
    )
    return Verdict("supported" if new > DOUBLE * old else "refuted", figure, reason)


def judge_cause(records: Records) -> Verdict:
    old, new, ours = _thread(records)
    if new <= ALIKE * old:
        figure = f"the new stack takes {new / old:.2f} times the old one's memory here"
        return Verdict("not testable here", figure, f"up to {ALIKE:g} times counts as no more")
    explained = (new - ours) / (new - old)
    figure = f"the fix removes {explained:.0%} of the excess, and leaves a peak of {format_value(ours, 'B')}"
    if explained < HALF:
        return Verdict("refuted", figure, "most of the excess remains when the value pass is fixed")
    note = (
        ""
        if ours <= ALIKE * old
        else f"; what is left is {ours / old:.1f} times the old stack's peak, so the rest has another cause"
    )
    return Verdict("partly" if note else "supported", figure, f"both updates are the same but for the value pass{note}")


def judge_minibatch(records: Records) -> Verdict:
    exponents = {}
    for way in ("released", "chunked"):
        peaks = records.series("value_pass.update_peak", "minibatch", way=way, network="nature")
        exponents[way] = growth_exponent(peaks, peaks.values())
    figure = f"peak ~ minibatch_size^{exponents['released']:.2f}, with the fix ^{exponents['chunked']:.2f}"
    if exponents["chunked"] <= FLAT:
        return Verdict("refuted", figure, "the peak does not follow minibatch_size, even with the fix")
    if exponents["released"] > FLAT:
        return Verdict("supported", figure, "the peak of an update follows minibatch_size")
    return Verdict(
        "partly",
        figure,
        "as released, it changes nothing, since the value pass sets the peak; with the fix, it lowers the peak",
    )


def judge_held(records: Records) -> Verdict:
    computed, advantages = (
        records.get("value_pass.live", way="released", stage=stage).value
        for stage in ("values computed", "advantages computed")
    )
    share = records.get("value_pass.share_held", way="released").value
    held_bytes = max(record.value for record in records.all("value_pass.held", way="released"))
    figure = (
        f"{format_value(computed, 'B')} once values are computed, "
        f"{format_value(advantages, 'B')} once advantages are (a further {share:.0%} of the connector's time), "
        f"{format_value(held_bytes, 'B')} after the connector"
    )
    if held_bytes > LEFT * computed:
        return Verdict("supported", figure, "memory other than the results stays after the connector")
    reason = f"the graph is dropped when the connector returns, before the first minibatch; at most {LEFT:.0%} is left"
    return Verdict("refuted", figure, reason)


def judge_modules(records: Records) -> Verdict:
    peaks = records.series("value_pass.peak", "modules", way="released", rows=modules_rows(records))
    ours = records.series("value_pass.peak", "modules", way="chunked", rows=modules_rows(records))
    growth = {name: growth_exponent(series, series.values()) for name, series in (("released", peaks), ("ours", ours))}
    figure = f"peak ~ networks^{growth['released']:.2f}, with the fix ^{growth['ours']:.2f}"
    if LINEAR[0] <= growth["released"] <= LINEAR[1]:
        return Verdict("supported", figure, "each network's graph is kept until all are done")
    return Verdict("refuted", figure, "the peak does not grow in proportion to the number of networks")


def judge_same(records: Records) -> Verdict:
    differences = records.all("value_pass.difference")
    training = records.get("value_pass.training_difference")
    worst = max(record.value for record in differences)
    one_chunk = [record.value for record in differences if record.setting["size"] is None]
    exact = sum(record.value == 0 for record in differences)
    figure = (
        f"bit-equal in {exact} of {len(differences)} settings, at most {worst:.1e} apart; "
        f"after training, which moved weights by {training.setting['moved']:.1e}, they are {training.value:.1e} apart"
    )
    if worst == 0 and training.value == 0:
        return Verdict("supported", figure, "every bit is the same")
    if worst > ROUNDING or any(one_chunk):
        return Verdict(
            "refuted", figure, f"they differ by more than rounding explains ({ROUNDING:.0e}), or with a single chunk"
        )
    return Verdict(
        "partly", figure, "equal bit for bit in one chunk; in several, equal up to the rounding of other batch sizes"
    )


def judge_slower(records: Records) -> Finding:
    slower = estimate(np.abs, records.get("value_pass.time_ratio"))
    return Finding(f"ours takes {slower}× the time of RLlib's", [slower], {"refuted": "chunks are faster here"})


def _thread(records: Records) -> tuple[int, int, int]:
    """Peaks of an update in the old stack, as released and with the fix."""
    ways = ("old stack", "released", "chunked")
    return tuple(records.get("value_pass.update_peak", way=way, network="recurrent").value for way in ways)


def modules_rows(records: Records) -> int:
    """Timesteps per network where several are trained at once."""
    max_modules = max(record.setting["modules"] for record in records.all("value_pass.peak"))
    return records.get("value_pass.peak", modules=max_modules).setting["rows"]


def _claim(number: int, sentence: str, section: str, judge, rule: Rule | None = None) -> Claim:
    return Claim(f"RL{number}", sentence, CHAPTER, section, judge, rule)


CLAIMS = [
    _claim(
        1,
        "PPO calls compute_values on all samples at once, so a large train_batch_size_per_learner fills the GPU "
        "(ray-project/ray#52432)",
        "How it grows",
        judge_whole_batch,
    ),
    _claim(
        2,
        "The value pass runs out of memory because its forward pass is made with gradients (#52683)",
        "How it grows",
        judge_gradients,
    ),
    _claim(
        3, "The new API stack needs more than twice the memory of the old one (#58679)", "The open thread", judge_double
    ),
    _claim(
        4,
        "The value pass is the cause of the new stack's excess memory (our claim, about #58679)",
        "The open thread",
        judge_cause,
    ),
    _claim(
        5, "Lowering minibatch_size lowers the peak (common advice)", "The parameter that does nothing", judge_minibatch
    ),
    _claim(
        6,
        "The graph stays in memory after the value pass (our claim, a first guess)",
        "How long the graph is held",
        judge_held,
    ),
    _claim(7, "With several policies, their graphs add up (our claim)", "How long the graph is held", judge_modules),
    _claim(
        8,
        "Without gradients and in chunks, the results are the same (our claim)",
        "Is the result the same, and are chunks slower?",
        judge_same,
    ),
    _claim(
        9, "Chunks take longer (our claim)", "Is the result the same, and are chunks slower?", judge_slower, longer()
    ),
]
