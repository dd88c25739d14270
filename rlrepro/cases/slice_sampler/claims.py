"""What the article says about SliceSampler, and how measurements judge it."""

import math

from rlrepro.cases.slice_sampler import BUGGY, CHAPTER, FIXED, MILLION, NEWEST
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import MissingRecord, Record, Records
from rlrepro.lab.units import format_value

SMALL, WIDE, LARGE = (5 * MILLION, 6 * MILLION), (5 * MILLION, 600 * MILLION), (346 * MILLION, 600 * MILLION)
ARTICLE_SECONDS = {SMALL: 0.0048, WIDE: 0.0361, LARGE: 1.6531}
ALIKE = 3  # factor up to which two ratios of times count as the same: caches and memory differ by machine
LINEAR = (0.8, 1.2)  # exponents that count as linear growth
SAME_RATE = 0.8  # share of the early rate of growth from which the late one counts as the same; a line keeps less
FLAT = 0.2  # exponent up to which a time counts as constant; the article's two capacities would give 0.44
TWICE = (1.4, 2.8)  # ratios that count as "about twice"
TWO_TO_THREE = (1.6, 3.8)  # ratios that count as "two to three times"
ARTICLE_CACHE = 500  # times faster


def _of_full(records: Records, name: str, stored: int, **setting) -> Record:
    """A record at the article's own sizes, which the profile full measures."""
    matching = records.where(f"slice_sampler.{name}", stored=stored, **setting)
    if not matching:
        raise MissingRecord(
            f"no record of slice_sampler.{name} with the article's sizes: {stored:,} stored, "
            + ", ".join(f"{key} {value}" for key, value in setting.items())
            + " (profile full)"
        )
    return matching[-1]


def _seconds(records: Records, cell, storage="cpu") -> float:
    stored, capacity = cell
    setting = {"capacity": capacity, "storage": storage, "sampler": "episode", "release": BUGGY}
    return _of_full(records, "sample", stored, **setting).value


def widest(records: Records, **setting) -> dict:
    """The setting at the largest capacity, where what is stored varies."""
    setting = {"release": BUGGY, "sampler": "episode", "storage": "cpu"} | setting
    return setting | {"capacity": max(records.series("slice_sampler.sample", "capacity", **setting))}


def least(records: Records, **setting) -> dict:
    """The setting with the fewest transitions stored, where the capacity varies."""
    setting = {"release": BUGGY, "sampler": "episode", "storage": "cpu"} | setting
    return setting | {"stored": min(records.series("slice_sampler.sample", "stored", **setting))}


def _judge_ratio(records: Records, slow, fast) -> Verdict:
    """The article's ratio between two of its cells, against the one measured."""
    article = ARTICLE_SECONDS[slow] / ARTICLE_SECONDS[fast]
    measured = _seconds(records, slow) / _seconds(records, fast)
    figure = f"{measured:.3g} times on the same storage; the article has {article:.3g}"
    if article / ALIKE <= measured <= article * ALIKE:
        return Verdict("supported", figure, f"the same ratio within a factor of {ALIKE}")
    if fast == SMALL and records.where("slice_sampler.sample", storage="cuda"):
        on_gpu = _seconds(records, slow) / _seconds(records, fast, storage="cuda")
        figure += f"; {on_gpu:.3g} with the small buffer on the GPU"
        if article / ALIKE <= on_gpu <= article * ALIKE:
            return Verdict("partly", figure, "the same ratio once the smaller buffer, which fits, is on the GPU")
    return Verdict("refuted", figure, f"off by more than a factor of {ALIKE}: they differ in more than it says")


def judge_capacity_step(records: Records) -> Verdict:
    return _judge_ratio(records, WIDE, SMALL)


def judge_stored_step(records: Records) -> Verdict:
    return _judge_ratio(records, LARGE, WIDE)


def judge_both_steps(records: Records) -> Verdict:
    return _judge_ratio(records, LARGE, SMALL)


def judge_capacity(records: Records) -> Verdict:
    times = records.series("slice_sampler.sample", "capacity", **least(records))
    exponent = growth_exponent(times, times.values())
    figure = f"time ~ capacity^{exponent:.2f} from {min(times):,} to {max(times):,}, with the same transitions stored"
    if exponent <= FLAT:
        return Verdict("refuted", figure, "the capacity is not read: what is stored matters")
    return Verdict("supported", figure, f"0 means no effect; up to {FLAT} counts as none")


def judge_exponential(records: Records) -> Verdict:
    times = records.series("slice_sampler.sample", "stored", **widest(records))
    if len(times) < 3:
        raise MissingRecord(f"a rate and its change need three sizes, found {list(times)}")
    exponent = growth_exponent(times, times.values())
    sizes = list(times)
    first, middle, last = sizes[0], sizes[len(sizes) // 2], sizes[-1]
    early, late = (math.log(times[to] / times[begin]) / (to - begin) for begin, to in ((first, middle), (middle, last)))
    figure = (
        f"time ~ stored^{exponent:.2f}; a million more take {math.exp(MILLION * early):.3g} times as long up to "
        f"{middle:,} stored, then {math.exp(MILLION * late):.3g} times"
    )
    if late >= SAME_RATE * early:
        return Verdict("supported", figure, "the same factor for each further transition is what exponential means")
    if LINEAR[0] <= exponent <= LINEAR[1]:
        return Verdict("refuted", figure, "the factor falls: the time is linear in what is stored")
    return Verdict("refuted", figure, "the factor falls: the time is a power of what is stored, not an exponential")


def judge_done_flags(records: Records) -> Verdict:
    record = records.get("slice_sampler.done_ratio", release=BUGGY)
    figure = f"{format_value(record.value, 'ratio')} faster with {record.setting['stored']:,} stored"
    if TWICE[0] <= record.value <= TWICE[1]:
        return Verdict("supported", figure, f"{TWICE[0]} to {TWICE[1]} counts as about twice")
    if record.value > TWICE[1]:
        return Verdict("partly", figure, "faster, by more than about twice")
    return Verdict("refuted", figure, "less than that")


def judge_cache(records: Records) -> Verdict:
    record = _of_full(records, "cache_ratio", LARGE[0], release=BUGGY)
    figure = f"{format_value(record.value, 'ratio')} faster, with nothing written in between"
    if record.value >= ARTICLE_CACHE:
        return Verdict("supported", figure, f"at least {ARTICLE_CACHE} times, as long as the buffer does not change")
    return Verdict("partly", figure, f"faster, but by less than {ARTICLE_CACHE} times")


def judge_rewrite(records: Records) -> Verdict:
    record = records.get("slice_sampler.release_ratio", release=FIXED)
    newest = records.get("slice_sampler.release_ratio", release=NEWEST)
    low, high = record.spread or (record.value, record.value)
    figure = (
        f"{BUGGY} takes {record.value:.3g}× the time of {FIXED} ({low:.3g} to {high:.3g}), {newest.value:.3g}× that of "
        f"{NEWEST}, with {record.setting['stored']:,} stored"
    )
    if TWO_TO_THREE[0] <= record.value <= TWO_TO_THREE[1]:
        return Verdict("supported", figure, f"{TWO_TO_THREE[0]} to {TWO_TO_THREE[1]} counts as that; without the cache")
    if record.value > 1:
        return Verdict("partly", figure, "faster, but by another factor; without the cache")
    return Verdict("refuted", figure, "no faster; without the cache")


def judge_solved(records: Records) -> Verdict:
    exponents = []
    for sampler in ("episode", "episode cached"):
        times = records.series("slice_sampler.online", "stored", release=NEWEST, sampler=sampler)
        exponents.append(growth_exponent(times, times.values()))
    figure = "after each write: stored^{:.2f} by default, ^{:.2f} cached".format(*exponents)
    if max(exponents) <= FLAT:
        return Verdict("supported", figure, f"{NEWEST} samples at the same cost however much is stored")
    if min(exponents) <= FLAT:
        return Verdict("partly", figure, "one of the two no longer slows down with what is stored")
    return Verdict("refuted", figure, f"{NEWEST} still reads every transition; with the cache, after each write")


def judge_bit_operations(records: Records) -> Verdict:
    moved, taken = (records.series(f"slice_sampler.{name}", "dtype", release=BUGGY) for name in ("moved", "moved_in"))
    by_bytes, by_time = (each["int64"] / each["bool"] for each in (moved, taken))
    figure = f"int64 ids move {by_bytes:.3g} times the bytes of bool ids, and take {by_time:.3g} times the time"
    if by_time <= by_bytes * ALIKE:
        return Verdict(
            "refuted", figure, f"a bool takes a byte; wider ids cost what their bytes do, within a factor of {ALIKE}"
        )
    return Verdict("partly", figure, "the bytes moved do not explain all of it")


CLAIMS = [
    Claim(
        "SS1",
        "With 5M rows stored, a capacity of 600M in place of 6M makes a sample 7.5 times slower (0.0048 s, 0.0361 s)",
        CHAPTER,
        "See it slow down",
        judge_capacity_step,
    ),
    Claim(
        "SS2",
        "With a capacity of 600M, 346M rows in place of 5M make it 46 times slower (0.0361 s, 1.6531 s)",
        CHAPTER,
        "See it slow down",
        judge_stored_step,
    ),
    Claim(
        "SS3",
        "From 5M of 6M to 346M of 600M it gets 344 times slower (0.0048 s, 1.6531 s)",
        CHAPTER,
        "See it slow down",
        judge_both_steps,
    ),
    Claim("SS4", "The slowdown comes from the capacity of the buffer", CHAPTER, "Is it the capacity?", judge_capacity),
    Claim("SS5", "It is exponential", CHAPTER, "See it slow down", judge_exponential),
    Claim(
        "SS6",
        "Done flags are about twice as fast as episode ids",
        CHAPTER,
        "How much upstream's fixes help",
        judge_done_flags,
    ),
    Claim(
        "SS7",
        "Caching makes it 500 times faster with 346M rows",
        CHAPTER,
        "How much upstream's fixes help",
        judge_cache,
    ),
    Claim(
        "SS8",
        "The rewritten algorithm is two to three times faster",
        CHAPTER,
        "How much upstream's fixes help",
        judge_rewrite,
    ),
    Claim("SS9", "The problem is solved", CHAPTER, "What they leave behind", judge_solved),
    Claim("SS10", "Integer ids are slow because booleans use bit operations", CHAPTER, "Why", judge_bit_operations),
]
