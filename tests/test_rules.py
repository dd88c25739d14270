"""The rules for each kind of claim, and the intervals of the numbers that they judge."""

import pytest

from rlrepro.evidence import Records, read_records
from rlrepro.evidence.claims import UNTESTED, Claim, Premise, Verdict
from rlrepro.evidence.estimates import Estimate, estimate, growth, growth_exponent, ratio
from rlrepro.evidence.rules import (
    Finding,
    about,
    at_least,
    at_most,
    because_of,
    constant,
    exactly,
    growing,
    proportional,
    share_left,
    slightly_more,
    times,
    weighed,
)

from .conftest import REFERENCE

ABOVE = 1.000001


@pytest.mark.parametrize(
    "rule, outcomes",
    [
        (at_least(3), {2.999: "refuted", 3: "supported"}),
        (at_most(3), {3: "supported", 3 * ABOVE: "refuted"}),
        (about(7), {4.99: "refuted", 5.01: "supported", 9.79: "supported", 9.81: "refuted"}),
        (times(2), {0.5: "refuted", 1: "refuted", 1.1: "partly", 1.42: "supported", 6: "supported", 6.01: "partly"}),
        (times(2, 3), {1: "refuted", 1.4: "partly", 1.42: "supported", 9: "supported", 9.01: "partly"}),
        (times(500), {0.5: "refuted", 166: "partly", 167: "supported", 1500: "supported", 1501: "partly"}),
        (slightly_more(), {0.9: "refuted", 1.09: "refuted", 1.1: "supported", 1.99: "supported", 2: "partly"}),
        (proportional("bytes"), {0: "refuted", 0.94: "refuted", 1: "supported", 1.06: "refuted"}),
        (proportional("times"), {0: "refuted", 0.81: "supported", 1.19: "supported", 1.21: "refuted", -1: "refuted"}),
        (constant("bytes"), {-1: "supported", 0.02: "supported", 0.021: "refuted"}),
        (constant("times"), {0.2: "supported", 0.21: "refuted"}),
        (growing("times"), {0: "refuted", 0.2: "refuted", 0.21: "supported"}),
        (because_of(), {-1: "refuted", 0.25: "refuted", 0.3: "partly", 0.5: "supported"}),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_a_kind_has_one_rule(rule, outcomes):
    assert {number: rule.judge(Finding("", [number])).outcome for number in outcomes} == outcomes


def test_the_remaining_share_of_an_effect_is_logarithmic():
    shares = [share_left(16, remaining) for remaining in (16, 4, 2, 1, 0.5)]
    assert shares == pytest.approx([1, 0.5, 0.25, 0, 0])
    assert share_left(1, 1) == share_left(0.5, 0.9) == 0 and share_left(1, 2) > 1  # no division by zero


def test_several_numbers_that_disagree_make_a_claim_true_in_part():
    rule, conditions = at_least(3), {"partly": "of one only"}
    assert rule.judge(Finding("", [3, 4], conditions)).outcome == "supported"
    assert rule.judge(Finding("", [1, 2], conditions)).outcome == "refuted"
    verdict = rule.judge(Finding("one and another", [1, 4], conditions))
    assert verdict == Verdict("partly", "one and another", "of one only; supported at 3 or more")


@pytest.mark.parametrize("interval, firm", [((2.0, 2.9), True), ((2.0, 3.1), False), ((3.0, 9.0), True), (None, True)])
def test_a_verdict_is_firm_unless_a_threshold_lies_inside_the_interval(interval, firm):
    verdict = at_least(3).judge(Finding("", [Estimate(3.05, interval)]))
    assert verdict.firm == firm and ("noise" in verdict.why) != firm


@pytest.mark.parametrize("bound, firm", [(1.0, True), (2.5, False), (4.0, True)])
def test_a_verdict_that_weighs_several_numbers_is_firm_if_each_is_beyond_its_bound(bound, firm):
    verdict = weighed("partly", "", "why", (Estimate(9.0), 3.0), (Estimate(2.4, (2.0, 3.0)), bound))
    assert verdict.firm == firm and ("noise" in verdict.why) != firm


def test_a_claim_is_not_judged_where_its_premise_does_not_hold():
    size = iter([1.0, 9.0])
    premise = Premise("the slowdown", lambda _: Finding("1.2 times", [next(size)]), at_least(2))
    claim = Claim("A", "", "", "", lambda _: Verdict("refuted", "f", "w"), exactly("all of it"), premise)
    reason = "the slowdown does not occur on this machine; it counts at 2 or more"
    assert claim.verdict(Records()) == Verdict(UNTESTED, "1.2 times", reason)
    assert claim.verdict(Records()) == Verdict("refuted", "f", "w; all of it")


@pytest.fixture(scope="module")
def record():
    return read_records(REFERENCE).where("slice_sampler.sample")[0]


def measured(record, *samples, **changes):
    return record.model_copy(update={"value": sorted(samples)[len(samples) // 2], "samples": samples} | changes)


def test_an_interval_is_as_wide_as_the_samples_allow(record):
    steady, noisy = measured(record, *[2.0] * 9), measured(record, 1.0, 2.0, 2.0, 2.0, 9.0)
    assert str(ratio(steady, steady)) == "1 (1 to 1)"
    low, high = ratio(steady, noisy).interval
    assert low == pytest.approx(2 / 9) and high == pytest.approx(2) and ratio(steady, noisy) == 1
    repeated = measured(record, *[1.0, 2.0, 2.0, 2.0, 9.0] * 20)
    assert ratio(steady, repeated).interval == (1, 1)  # the median of many samples is precise


def test_single_measurements_have_no_interval_and_bytes_need_none(record):
    once, three_times = measured(record, 2.0, samples=None), measured(record, 2.0, 2.0, 2.0)
    assert str(ratio(once, three_times)) == "1 (one measurement)" and ratio(once, three_times).interval is None
    size = measured(record, 8, unit="B", samples=None)
    assert str(ratio(size, size)) == "1" and f"{ratio(size, size):.3f}" == "1.000"
    three_records = [once, once, three_times]  # three records of one quantity are three samples
    assert ratio(three_records, three_times).interval == (1, 1)


def test_growth_has_an_interval(record):
    flat, line = ({size: measured(record, *[size**k] * 5) for size in (1.0, 10.0, 100.0)} for k in (0, 1))
    assert str(growth(line)) == "1 (1 to 1)" and growth(flat) == pytest.approx(0)
    noisy = {**line, 100.0: measured(record, 50.0, 100.0, 200.0)}
    low, high = growth(noisy).interval
    assert low < 0.9 < 1.1 < high


def test_the_value_lies_within_its_interval(record):
    """The mean of skewed samples may lie outside an interval of the median."""
    skewed = measured(record, 1.0, 1.0, 1.0, 1.0, 100.0, value=20.8)
    assert estimate(abs, skewed).interval[1] >= 20.8


def test_constant_values_have_an_exponent_without_a_sign():
    """A fit's last bits depend on the processor, and -0.00 in a figure would be a difference between them."""
    exponents = [growth_exponent([64, 256, 1024], [value] * 3) for value in (3, 1e6 / 7, 2**30 + 1, 8274, 0.1)]
    assert {str(float(exponent)) for exponent in exponents} == {"0.0"}
    assert growth_exponent([1, 2], [1, 8]) == pytest.approx(3)
