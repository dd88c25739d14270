"""The article's claims about logp_old, and the functions that judge them from measurements."""

from functools import partial

from rlrepro.cases.logp_old import BUGGY, CHAPTER, FIXED, NEWEST
from rlrepro.cases.logp_old.article import ARTICLE
from rlrepro.evidence.claims import Claim, Finding, Premise, Verdict
from rlrepro.evidence.estimates import estimate, growth
from rlrepro.evidence.records import Records
from rlrepro.evidence.rules import at_least, constant, exactly, growing, slightly_more
from rlrepro.lab.units import format_value

MIN_EXPONENT = 0.5  # of peak against max_batchsize, from which the parameter counts as controlling the peak
ROUNDING = {  # the largest relative difference that another order of operations explains, by precision
    "float32": 1e-5,  # 23 bits, of which sums of a few thousand terms lose a few
    "tf32": 2**-8,  # 10 bits
    "bfloat16": 2**-5,  # 7 bits
}


def _growth(records: Records, release: str) -> tuple[float, dict]:
    peaks = records.along("logp_old.peak", "rows", release=release, network="nature")
    return growth(peaks), peaks


def judge_whole_rollout(records: Records) -> Finding:
    exponent, peaks = _growth(records, BUGGY)
    max_rows = max(peaks)
    figure = (
        f"peak ~ transitions^{exponent:.3f}, {format_value(peaks[max_rows].value, 'B')} at {max_rows:,} transitions"
    )
    return Finding(figure, [exponent])


def judge_chunking_bounds(records: Records) -> Finding:
    exponents = {release: _growth(records, release)[0] for release in (FIXED, NEWEST)}
    figure = ", ".join(f"{release}: peak ~ transitions^{exponent:.3f}" for release, exponent in exponents.items())
    return Finding(figure, list(exponents.values()))


def judge_parameter(records: Records) -> Finding | Verdict:
    buggy, fixed = (
        growth(records.along("logp_old.peak_by_chunk", "max_batchsize", release=release)) for release in (BUGGY, FIXED)
    )
    figure = f"peak ~ max_batchsize^{fixed:.2f} in {FIXED}, ^{buggy:.2f} in {BUGGY}"
    if min(buggy, fixed) >= MIN_EXPONENT:
        return Verdict("partly", figure, f"the parameter controls the peak, but in {BUGGY} as well")
    return Finding(figure, [fixed], {"refuted": "the peak does not follow max_batchsize even in the fixed release"})


def judge_same_results(records: Records) -> Verdict:
    differences = records.where("logp_old.difference")
    runs = records.where("logp_old.training_difference")
    if not differences or not runs:
        records.get("logp_old.difference" if not differences else "logp_old.training_difference")
    worst = max(differences, key=lambda record: record.value)
    worst_run = max(runs, key=lambda record: record.value)
    exact = [record for record in differences if record.value == 0]
    figure = (
        f"bit-equal in {len(exact)} of {len(differences)} settings, at most {worst.value:.1e} apart; "
        f"weights after training up to {worst_run.value:.1e} apart"
    )
    if worst.value == 0 and worst_run.value == 0:
        return Verdict("supported", figure, "every bit is the same, and so is a whole seeded training run")
    for record in differences:
        tolerance = ROUNDING[record.setting["dtype"]]
        if record.value > tolerance:
            dtype = record.setting["dtype"]
            return Verdict("refuted", figure, f"apart by more than rounding explains in {dtype} ({tolerance:.1e})")
    same_returns = records.series("logp_old.training_same_returns", "max_batchsize")
    changed = [str(size) for size, is_same in same_returns.items() if not is_same]
    returns_note = f"; with {', '.join(changed)} the episodes of a seeded training run differ" if changed else ""
    inexact = sorted({record.setting["max_batchsize"] for record in (*differences, *runs) if record.value})
    sizes = ", ".join(map(str, inexact))
    return Verdict("partly", figure, f"equal up to rounding, not bit for bit with max_batchsize={sizes}{returns_note}")


def judge_slower(records: Records) -> Finding:
    slower = estimate(abs, records.get("logp_old.time_ratio"))
    return Finding(f"{FIXED} takes {slower} times as long as {BUGGY}", [slower])


def judge_snippet(records: Records) -> Verdict:
    record = records.get("logp_old.snippet_error", release=BUGGY)
    if record.value is None:
        return Verdict("supported", "runs", f"the article's lines run as printed in {BUGGY}")
    older = records.get("logp_old.snippet_error", release="0.5.1").value
    note = f"raises in {BUGGY}" + ("; it runs in 0.5.1, where the attribute has that name" if older is None else "")
    return Verdict("refuted", record.value, note)


def judge_remainder(records: Records) -> Verdict:
    sizes = records.get("logp_old.chunks", release=FIXED)
    rows, size = sizes.setting["rows"], sizes.setting["max_batchsize"]
    independent, plain = (
        records.get("logp_old.first_ratio_error", release=FIXED, distribution=distribution, actions=1).value
        for distribution in ("independent", "plain normal")
    )
    figure = (
        f"{rows} transitions in chunks of {size} become {format_value(sizes.value, 'sizes')}; "
        f"PPO's first ratio off by {format_value(independent, 'difference')} (Independent), "
        f"{format_value(plain, 'difference')} (plain Normal)"
    )
    if sum(sizes.value) != rows or independent != 0:
        return Verdict("refuted", figure, "transitions are lost, or the ratio is wrong even with Independent")
    if max(sizes.value) <= size and plain == 0:
        return Verdict("supported", figure, "no transition is lost, no chunk is too large, and every shape is kept")
    return Verdict(
        "partly",
        figure,
        "no transition is lost, but a chunk has up to 2×size-1 of them, and flatten keeps the shape only if there is "
        "one log-probability per transition: with a plain Normal, PPO's ratio is wrong",
    )


def judge_any_amount(records: Records) -> Verdict:
    host_bytes = records.get("logp_old.host_bytes_per_row", release=FIXED).value
    max_rows = records.get("logp_old.rows_host_memory_allows", release=FIXED).value
    exponents = {}
    for twin in ("GAIL", "ICM"):
        peaks = records.along("logp_old.twin_peak", "rows", twin=twin, stage="preprocess", fixed=False)
        exponents[twin] = growth(peaks)
    unbounded = [twin for twin, exponent in exponents.items() if exponent >= MIN_EXPONENT]
    growth_rates = ", ".join(f"{twin} ~ transitions^{exponent:.2f}" for twin, exponent in exponents.items())
    figure = (
        f"{format_value(host_bytes, 'B')} of host memory per transition, room for {max_rows:,} here; "
        f"peaks of {growth_rates}"
    )
    if unbounded:
        names = " and ".join(unbounded)
        reason = f"host memory grows with the rollout, and {names} of {NEWEST} still process all of it at once"
        return Verdict("refuted", figure, reason)
    return Verdict("partly", figure, "device memory is bounded; host memory still grows with the rollout")


GROWTH = Premise("the growth with the rollout", judge_whole_rollout, growing("bytes"))

claim = partial(Claim, chapter=CHAPTER, article=ARTICLE)

CLAIMS = [
    claim(
        "LO1",
        f"{BUGGY} computes logp_old on the whole batch, and its memory grows with it",
        section="How it grows",
        judge=judge_whole_rollout,
        rule=growing("bytes"),
    ),
    claim(
        "LO2",
        "Computing logp_old in chunks bounds the memory",
        section="How it grows",
        judge=judge_chunking_bounds,
        rule=constant("bytes"),
        premise=GROWTH,
    ),
    claim(
        "LO3",
        "Only with the fix can the batch-size parameter control the memory",
        section="The parameter that does nothing",
        judge=judge_parameter,
        rule=at_least(MIN_EXPONENT, f"an exponent of {MIN_EXPONENT:g}"),
        premise=GROWTH,
    ),
    claim(
        "LO4",
        "The results are exactly the same",
        section="Is the result the same, and are chunks slower?",
        judge=judge_same_results,
        rule=exactly("exactly means every bit"),
    ),
    claim(
        "LO5",
        "Chunking is slightly slower",
        section="Is the result the same, and are chunks slower?",
        judge=judge_slower,
        rule=slightly_more(),
    ),
    claim(
        "LO6",
        "The snippet works as printed",
        section="If you can't upgrade",
        judge=judge_snippet,
        rule=exactly("as printed means without a change"),
    ),
    claim(
        "LO7",
        "merge_last handles the remainder, and flatten keeps the shape",
        section="What the fix leaves behind",
        judge=judge_remainder,
        rule=exactly("the ratio of an update that has changed nothing has to be exactly 1"),
    ),
    claim(
        "LO8",
        "After the fix, any amount of data can be handled",
        section="What the fix leaves behind",
        judge=judge_any_amount,
        rule=exactly("any amount means that nothing grows with it"),
        premise=GROWTH,
    ),
]
