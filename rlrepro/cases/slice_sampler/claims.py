"""The article's claims about SliceSampler, and the functions that judge them from measurements."""

import math
from functools import partial

import numpy as np

from rlrepro.cases.slice_sampler import BUGGY, CHAPTER, FIXED, MILLION, NEWEST
from rlrepro.cases.slice_sampler.article import ARTICLE
from rlrepro.evidence.claims import Claim, Finding, Premise
from rlrepro.evidence.estimates import estimate, growth, ratio
from rlrepro.evidence.records import MissingRecord, Record, Records
from rlrepro.evidence.rules import Rule, at_least, because_of, constant, growing, share_left, times

SMALL, WIDE, LARGE = (5 * MILLION, 6 * MILLION), (5 * MILLION, 600 * MILLION), (346 * MILLION, 600 * MILLION)
ARTICLE_SECONDS = {SMALL: 0.0048, WIDE: 0.0361, LARGE: 1.6531}
SAME_RATE = 0.8  # from this share of the early rate of growth on, the late one counts as the same; a line keeps less
SLOWDOWN = 2  # from this ratio of the largest to the smallest buffer on, there is a slowdown to explain or fix
SLOWER_IDS = 1.5  # from this ratio to bool ids on, wider ids count as slow


def _at_article_size(records: Records, name: str, stored: int, **setting) -> Record:
    """A record at the article's own sizes, which the profile full measures."""
    matching = records.where(f"slice_sampler.{name}", stored=stored, **setting)
    if not matching:
        raise MissingRecord(
            f"no record of slice_sampler.{name} with the article's sizes: {stored:,} stored, "
            + ", ".join(f"{key} {value}" for key, value in setting.items())
            + " (profile full)"
        )
    return matching[-1]


def _sample(records: Records, cell, storage="cpu") -> Record:
    stored, capacity = cell
    setting = {"capacity": capacity, "storage": storage, "sampler": "episode", "release": BUGGY}
    return _at_article_size(records, "sample", stored, **setting)


def largest_capacity(records: Records, **setting) -> dict:
    """The setting with the largest capacity, in which the number of stored transitions varies."""
    setting = {"release": BUGGY, "sampler": "episode", "storage": "cpu"} | setting
    return setting | {"capacity": max(records.series("slice_sampler.sample", "capacity", **setting))}


def fewest_stored(records: Records, **setting) -> dict:
    """The setting with the fewest stored transitions, in which the capacity varies."""
    setting = {"release": BUGGY, "sampler": "episode", "storage": "cpu"} | setting
    return setting | {"stored": min(records.series("slice_sampler.sample", "stored", **setting))}


def judge_slowdown(records: Records) -> Finding:
    by_stored = records.along("slice_sampler.sample", "stored", **largest_capacity(records))
    by_capacity = records.along("slice_sampler.sample", "capacity", **fewest_stored(records))
    fullest, smallest = max(by_stored), min(by_capacity)
    slower = ratio(by_stored[fullest], by_capacity[smallest])
    figure = (
        f"a sample from the fullest buffer ({fullest:,} transitions) takes {slower} times as long as from the smallest"
    )
    return Finding(figure, [slower])


def _article_ratio(slow, fast) -> float:
    return ARTICLE_SECONDS[slow] / ARTICLE_SECONDS[fast]


def _compare_cells(records: Records, slow, fast) -> Finding:
    """The ratio between two of the article's cells; also with the small buffer on the GPU, if that was measured."""
    ratios = [ratio(_sample(records, slow), _sample(records, fast))]
    figure = f"{ratios[0]} times on the same storage; the article has {_article_ratio(slow, fast):.3g}"
    if fast == SMALL and records.where("slice_sampler.sample", storage="cuda"):
        ratios.append(ratio(_sample(records, slow), _sample(records, fast, storage="cuda")))
        figure += f"; {ratios[1]} with the small buffer, which fits there, on the GPU"
    return Finding(
        figure, ratios, {"partly": "slower, but by another factor, or only if the small buffer is on the GPU"}
    )


def judge_capacity_step(records: Records) -> Finding:
    return _compare_cells(records, WIDE, SMALL)


def judge_stored_step(records: Records) -> Finding:
    return _compare_cells(records, LARGE, WIDE)


def judge_both_steps(records: Records) -> Finding:
    return _compare_cells(records, LARGE, SMALL)


def judge_capacity(records: Records) -> Finding:
    measured = records.along("slice_sampler.sample", "capacity", **fewest_stored(records))
    exponent = growth(measured)
    sizes = f"{min(measured):,} to {max(measured):,}"
    figure = f"time ~ capacity^{exponent} from {sizes}, with the same transitions stored"
    return Finding(figure, [exponent], {"refuted": "the capacity is not read: what is stored matters"})


def judge_exponential(records: Records) -> Finding:
    measured = records.along("slice_sampler.sample", "stored", **largest_capacity(records))
    if len(measured) < 3:
        raise MissingRecord(f"a rate and its change need three sizes, found {list(measured)}")
    sizes = list(measured)
    sizes = first, middle, last = sizes[0], sizes[len(sizes) // 2], sizes[-1]

    def late_over_early(early, half, late):
        return np.log(late / half) / (last - middle) / (np.log(half / early) / (middle - first))

    share = estimate(late_over_early, *(measured[size] for size in sizes))
    linear_share = math.log(last / middle) / (last - middle) / (math.log(middle / first) / (middle - first))
    figure = (
        f"time ~ stored^{growth(measured)}; beyond {middle:,} stored, the growth rate is {share} of the earlier one (a "
        f"straight line: {linear_share:.2g})"
    )
    return Finding(figure, [share], {"refuted": "each further transition adds a smaller factor"})


def judge_done_flags(records: Records) -> Finding:
    measured = records.all("slice_sampler.done_ratio", release=BUGGY)
    faster, at_largest = estimate(np.abs, measured), estimate(np.abs, measured[-1])
    figure = (
        f"{faster} times as fast (median over all sizes, since the article names no size); {at_largest} with "
        f"{measured[-1].setting['stored']:,} stored"
    )
    return Finding(figure, [faster])


def judge_cache(records: Records) -> Finding:
    faster = estimate(np.abs, _at_article_size(records, "cache_ratio", LARGE[0], release=BUGGY))
    return Finding(f"{faster} times as fast, with nothing written in between", [faster])


def judge_rewrite(records: Records) -> Finding:
    record = records.get("slice_sampler.release_ratio", release=FIXED)
    faster, newest = (estimate(np.abs, ratios) for ratios in (record, records.get(record.name, release=NEWEST)))
    stored = f"with {record.setting['stored']:,} stored, without the cache"
    return Finding(
        f"{FIXED} is {faster} times as fast as {BUGGY}, and {NEWEST} is {newest} times as fast, {stored}", [faster]
    )


def judge_solved(records: Records) -> Finding:
    exponents = [
        growth(records.along("slice_sampler.online", "stored", release=NEWEST, sampler=sampler))
        for sampler in ("episode", "episode cached")
    ]
    reasons = {
        "refuted": f"{NEWEST} still reads every transition: for each sample, or with the cache after each write",
        "partly": "one of the two no longer slows down with what is stored",
    }
    return Finding("after each write: stored^{} by default, ^{} cached".format(*exponents), exponents, reasons)


def _by_ids(records: Records, name: str) -> list[Record]:
    measured = records.along(f"slice_sampler.{name}", "dtype", release=BUGGY)
    return [measured["int64"], measured["bool"]]


def judge_slow_ids(records: Records) -> Finding:
    slower = ratio(*_by_ids(records, "moved_in"))
    return Finding(f"int64 ids take {slower} times the time of bool ids", [slower])


def judge_bit_operations(records: Records) -> Finding:
    moved, seconds = (_by_ids(records, name) for name in ("moved", "moved_in"))
    unexplained = estimate(
        lambda long, short, wide, narrow: share_left(long / short, long / short * narrow / wide), *seconds, *moved
    )
    figure = (
        f"int64 ids move {ratio(*moved)} times the bytes of bool ids, and take {ratio(*seconds)} times the time; "
        f"{unexplained} of that is not explained by the bytes (on a log scale)"
    )
    return Finding(figure, [unexplained], {"refuted": "a bool takes a byte; wider ids cost what their bytes do"})


THE_SLOWDOWN = Premise("the slowdown", judge_slowdown, at_least(SLOWDOWN))
SLOW_IDS = Premise("the slowness of integer ids", judge_slow_ids, at_least(SLOWER_IDS))
EXPONENTIAL = Rule(
    f"supported at {SAME_RATE:g} of the earlier rate or more, since an exponential keeps it",
    (SAME_RATE,),
    ("refuted", "supported"),
)

slowdown_claim = partial(Claim, chapter=CHAPTER, article=ARTICLE, section="See it slow down")
fix_claim = partial(
    Claim, chapter=CHAPTER, article=ARTICLE, section="How much upstream's fixes help", premise=THE_SLOWDOWN
)

CLAIMS = [
    slowdown_claim(
        "SS1",
        "With 5M transitions, a capacity of 600M instead of 6M makes sampling 7.5 times slower (0.0048 s, 0.0361 s)",
        judge=judge_capacity_step,
        rule=times(_article_ratio(WIDE, SMALL)),
    ),
    slowdown_claim(
        "SS2",
        "With a capacity of 600M, 346M transitions in place of 5M make sampling 46 times slower (0.0361 s, 1.6531 s)",
        judge=judge_stored_step,
        rule=times(_article_ratio(LARGE, WIDE)),
    ),
    slowdown_claim(
        "SS3",
        "From 5M of 6M to 346M of 600M, sampling gets 344 times slower (0.0048 s, 1.6531 s)",
        judge=judge_both_steps,
        rule=times(_article_ratio(LARGE, SMALL)),
    ),
    slowdown_claim(
        "SS4",
        "The slowdown comes from the capacity of the buffer",
        section="Is it the capacity?",
        judge=judge_capacity,
        rule=growing("times"),
        premise=THE_SLOWDOWN,
    ),
    slowdown_claim(
        "SS5", "The slowdown is exponential", judge=judge_exponential, rule=EXPONENTIAL, premise=THE_SLOWDOWN
    ),
    fix_claim("SS6", "Done flags are about twice as fast as episode ids", judge=judge_done_flags, rule=times(2)),
    fix_claim(
        "SS7", "Caching makes sampling 500 times faster with 346M transitions", judge=judge_cache, rule=times(500)
    ),
    fix_claim("SS8", "The rewritten algorithm is two to three times faster", judge=judge_rewrite, rule=times(2, 3)),
    fix_claim(
        "SS9",
        "The problem is solved",
        section="What they leave behind",
        judge=judge_solved,
        rule=constant("times"),
    ),
    slowdown_claim(
        "SS10",
        "Integer ids are slow because booleans use bit operations",
        section="Why",
        judge=judge_bit_operations,
        rule=because_of(),
        premise=SLOW_IDS,
    ),
]
