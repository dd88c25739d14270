"""What the article says of logp_old, and how measurements judge it."""

from rlrepro.cases.logp_old import BUGGY, CHAPTER, FIXED, NEWEST
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.lab.units import format_value

LINEAR = (0.95, 1.05)  # exponents that count as growing with the rollout
FLAT = 0.02  # the exponent up to which memory counts as bounded
FOLLOWS = 0.5  # the exponent of peak against max_batchsize from which the parameter counts as setting it
ROUNDING = {  # the largest relative difference that arithmetic in another order explains, by its precision
    "float32": 1e-5,  # 23 bits, of which sums of some thousand terms lose a few
    "tf32": 2**-8,  # 10 bits
    "bfloat16": 2**-5,  # 7 bits
}


def _exponent(records: Records, release: str) -> tuple[float, dict]:
    peaks = records.series("logp_old.peak", "rows", release=release, network="nature")
    return growth_exponent(peaks, peaks.values()), peaks


def judge_whole_rollout(records: Records) -> Verdict:
    exponent, peaks = _exponent(records, BUGGY)
    figure = f"peak ~ rows^{exponent:.3f}, {format_value(max(peaks.values()), 'B')} at {max(peaks):,} rows"
    grows = LINEAR[0] <= exponent <= LINEAR[1]
    return Verdict(
        "supported" if grows else "refuted",
        figure,
        f"exponents from {LINEAR[0]} to {LINEAR[1]} count as proportional: twice the rollout, twice the memory",
    )


def judge_chunking_bounds(records: Records) -> Verdict:
    exponents = {release: _exponent(records, release)[0] for release in (FIXED, NEWEST)}
    figure = ", ".join(f"{release}: peak ~ rows^{exponent:.3f}" for release, exponent in exponents.items())
    bounded = all(exponent <= FLAT for exponent in exponents.values())
    return Verdict("supported" if bounded else "refuted", figure, f"exponents up to {FLAT} count as no growth")


def judge_parameter(records: Records) -> Verdict:
    exponents = {}
    for release in (BUGGY, FIXED):
        peaks = records.series("logp_old.peak_by_chunk", "max_batchsize", release=release)
        exponents[release] = growth_exponent(peaks, peaks.values())
    figure = f"peak ~ max_batchsize^{exponents[FIXED]:.2f} in {FIXED}, ^{exponents[BUGGY]:.2f} in {BUGGY}"
    if exponents[FIXED] < FOLLOWS:
        return Verdict("refuted", figure, "the peak does not follow max_batchsize even in the fixed release")
    if exponents[BUGGY] >= FOLLOWS:
        return Verdict("supported", figure, "the peak follows max_batchsize in both releases")
    return Verdict("partly", figure, f"once fixed, yes; in {BUGGY} the parameter changes nothing")


def judge_same_results(records: Records) -> Verdict:
    differences = records.where("logp_old.difference")
    runs = records.where("logp_old.training_difference")
    if not differences or not runs:
        records.get("logp_old.difference" if not differences else "logp_old.training_difference")
    worst = max(differences, key=lambda record: record.value)
    furthest = max(runs, key=lambda record: record.value)
    exact = [record for record in differences if record.value == 0]
    figure = (
        f"bit-equal in {len(exact)} of {len(differences)} settings, at most {worst.value:.1e} apart; "
        f"weights after training up to {furthest.value:.1e} apart"
    )
    if worst.value == 0 and furthest.value == 0:
        return Verdict("supported", figure, "every bit is the same, and so is a whole seeded training run")
    for record in differences:
        allowed = ROUNDING[record.setting["dtype"]]
        if record.value > allowed:
            kind = record.setting["dtype"]
            return Verdict("refuted", figure, f"apart by more than rounding explains in {kind} ({allowed:.1e})")
    same = records.series("logp_old.training_same_returns", "max_batchsize")
    different = [str(size) for size, is_same in same.items() if not is_same]
    course = f"; with {', '.join(different)} the episodes of a seeded training run differ" if different else ""
    inexact = sorted({record.setting["max_batchsize"] for record in (*differences, *runs) if record.value})
    sizes = ", ".join(map(str, inexact))
    return Verdict("partly", figure, f"equal up to rounding, not bit for bit with max_batchsize={sizes}{course}")


def judge_slower(records: Records) -> Verdict:
    record = records.get("logp_old.time_ratio")
    if record.spread is None:
        raise MissingRecord("no spread of logp_old.time_ratio")
    low, high = record.spread
    figure = f"{FIXED} takes {record.value:.2f}× the time of {BUGGY} ({low:.2f} to {high:.2f})"
    if low > 1:
        return Verdict("supported", figure, "chunks cost time here, beyond the spread of the measurement")
    if high < 1:
        return Verdict("refuted", figure, "chunks are faster here, beyond the spread of the measurement")
    return Verdict("partly", figure, "no difference here beyond the spread of the measurement")


def judge_snippet(records: Records) -> Verdict:
    record = records.get("logp_old.snippet_error", release=BUGGY)
    if record.value is None:
        return Verdict("supported", "runs", f"the article's lines run as printed in {BUGGY}")
    older = records.get("logp_old.snippet_error", release="0.5.1").value
    why = f"raises in {BUGGY}" + ("; the attribute had that name up to 0.5.1, where it runs" if older is None else "")
    return Verdict("refuted", record.value, why)


def judge_remainder(records: Records) -> Verdict:
    sizes = records.get("logp_old.chunks", release=FIXED)
    rows, size = sizes.setting["rows"], sizes.setting["max_batchsize"]
    independent, plain = (
        records.get("logp_old.first_ratio_error", release=FIXED, distribution=kind, actions=1).value
        for kind in ("independent", "plain normal")
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
    host = records.get("logp_old.host_bytes_per_row", release=FIXED).value
    allowed = records.get("logp_old.rows_host_memory_allows", release=FIXED).value
    growth = {}
    for twin in ("GAIL", "ICM"):
        peaks = records.series("logp_old.twin_peak", "rows", twin=twin, stage="preprocess", cured=False)
        growth[twin] = growth_exponent(peaks, peaks.values())
    unbounded = [twin for twin, exponent in growth.items() if exponent >= LINEAR[0]]
    exponents = ", ".join(f"{twin}: rows^{exponent:.2f}" for twin, exponent in growth.items())
    figure = f"{format_value(host, 'B')} of host memory per transition, at most {allowed:,} here; {exponents}"
    if unbounded:
        names = " and ".join(unbounded)
        why = f"host memory grows with the rollout, and {names} of {NEWEST} still process all of it at once"
        return Verdict("refuted", figure, why)
    return Verdict("partly", figure, "device memory is bounded; host memory still grows with the rollout")


CLAIMS = [
    Claim(
        "LO1",
        f"{BUGGY} computes logp_old on the whole batch, and its memory grows with it",
        CHAPTER,
        "How it grows",
        judge_whole_rollout,
    ),
    Claim("LO2", "Computing it in chunks bounds the memory", CHAPTER, "How it grows", judge_chunking_bounds),
    Claim(
        "LO3",
        "The memory can be set by the batch-size parameter",
        CHAPTER,
        "The parameter that does nothing",
        judge_parameter,
    ),
    Claim(
        "LO4",
        "The results are exactly the same",
        CHAPTER,
        "Is the result the same, and is it slower?",
        judge_same_results,
    ),
    Claim("LO5", "Chunking is slightly slower", CHAPTER, "Is the result the same, and is it slower?", judge_slower),
    Claim("LO6", "The snippet works as printed", CHAPTER, "If you can't upgrade", judge_snippet),
    Claim(
        "LO7",
        "merge_last handles the remainder, and flatten keeps the shape",
        CHAPTER,
        "What the fix leaves behind",
        judge_remainder,
    ),
    Claim(
        "LO8",
        "After the fix, any amount of data can be handled",
        CHAPTER,
        "What the fix leaves behind",
        judge_any_amount,
    ),
]
