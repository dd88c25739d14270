"""The kinds of claims. Each kind has one rule, which turns measured numbers into a verdict."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rlrepro.lab.units import number

Outcome = Literal["supported", "refuted", "partly", "not testable here"]
UNTESTED = "not testable here"

SAME = 1.1  # the largest ratio that counts as no difference
MACHINES = 3  # factor by which a ratio of times may differ from the article's: caches and memory differ by machine
AMOUNT = 1.4  # the same for an amount, which does not depend on the machine
PROPORTIONAL = {"bytes": 0.05, "times": 0.2}  # distance from 1 up to which an exponent counts as proportional growth
CONSTANT = {"bytes": 0.02, "times": 0.2}  # exponents that count as no growth; times are noisy
NOISE = "the threshold lies inside the interval, so noise may have decided"
EXPLAINED, UNEXPLAINED = 0.25, 0.5  # shares of an effect that count as none of it, and as most of it


@dataclass(frozen=True)
class Verdict:
    """What the measurements say about a claim: the outcome, the figure it rests on, and the reason in one line.

    It is not `firm` if noise alone could have led to another outcome.
    """

    outcome: Outcome
    figure: str
    why: str
    firm: bool = True


@dataclass(frozen=True)
class Finding:
    """What a judge measured, for the claim's rule to decide: a sentence, and the numbers in it that matter.

    `because` has a reason for some outcomes. A plain number is exact; an `Estimate` may have an interval.
    """

    figure: str
    numbers: Sequence[float]
    because: Mapping[Outcome, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """A kind of claim: outcome k applies from `bounds[k - 1]` on, and `says` explains the bounds to readers."""

    says: str
    bounds: tuple[float, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    def outcome(self, value: float) -> Outcome:
        return self.outcomes[bisect_right(self.bounds, value)]

    def judge(self, finding: Finding) -> Verdict:
        """The verdict that all numbers agree on, or *partly*. It is firm if no bound lies inside an interval."""
        outcomes = {self.outcome(value) for value in finding.numbers}
        outcome = outcomes.pop() if len(outcomes) == 1 else "partly"
        firm = all(is_firm(value, *self.bounds) for value in finding.numbers)
        reason = "; ".join(filter(None, (finding.because.get(outcome), self.says, "" if firm else NOISE)))
        return Verdict(outcome, finding.figure, reason, firm)


def is_firm(value: float, *bounds: float) -> bool:
    """Whether noise can't move the value across any of the ascending bounds, because none lies inside its interval."""
    interval = getattr(value, "interval", None)
    return not interval or bisect_right(bounds, interval[0]) == bisect_right(bounds, interval[1])


def weighed(outcome: Outcome, figure: str, reason: str, *compared: tuple[float, float]) -> Verdict:
    """The verdict of a judge that compared several numbers, each with a bound of its own."""
    firm = all(is_firm(value, bound) for value, bound in compared)
    return Verdict(outcome, figure, reason if firm else f"{reason}; {NOISE}", firm)


def at_least(bound: float, wording: str = "") -> Rule:
    """A number of at least `bound` supports the claim. `wording` is the bound in words."""
    text = f"supported from {wording} up" if wording else f"supported at {number(bound)} or more"
    return Rule(text, (bound,), ("refuted", "supported"))


def at_most(bound: float, wording: str = "") -> Rule:
    """A number up to `bound` supports the claim."""
    text = f"supported up to {wording or number(bound)}"
    return Rule(text, (_next_float(bound),), ("supported", "refuted"))


def about(amount: float) -> Rule:
    """An amount, such as a batch size, within a factor of AMOUNT."""
    low, high = amount / AMOUNT, amount * AMOUNT
    text = f"supported from {number(low)} to {number(high)}, which counts as about {number(amount)}"
    return Rule(text, (low, _next_float(high)), ("refuted", "supported", "refuted"))


def times(low: float, high: float | None = None) -> Rule:
    """ "N times as fast", or slow. Within a factor of MACHINES this is supported, unless it is nearer to no effect; an
    effect of another size makes it true in part, and no effect refutes it."""
    lowest, highest = max(low / MACHINES, math.sqrt(low)), (high or low) * MACHINES
    claimed = f"{number(low)} to {number(high)}" if high else number(low)
    accepted = f"{number(lowest)} to {number(highest)}"
    text = f"claimed: {claimed}; supported from {accepted}, since machines differ; refuted below {SAME}"
    return Rule(text, (SAME, lowest, _next_float(highest)), ("refuted", "partly", "supported", "partly"))


def slightly_more() -> Rule:
    """More than before, but less than twice as much."""
    text = f"supported from {SAME} to 2; refuted below, which counts as no effect; partly above"
    return Rule(text, (SAME, 2), ("refuted", "supported", "partly"))


def longer() -> Rule:
    """It takes longer; a factor of SAME either way counts as no difference."""
    text = f"supported at {SAME} or more, refuted below {number(1 / SAME)}; what lies between counts as no difference"
    return Rule(text, (1 / SAME, SAME), ("refuted", "partly", "supported"))


def proportional(measured: Literal["bytes", "times"]) -> Rule:
    """The exponent of the growth is 1."""
    tolerance = PROPORTIONAL[measured]
    text = f"supported with exponents from {1 - tolerance:g} to {1 + tolerance:g}, which is growth in proportion"
    return Rule(text, (1 - tolerance, _next_float(1 + tolerance)), ("refuted", "supported", "refuted"))


def constant(measured: Literal["bytes", "times"]) -> Rule:
    """The exponent of the growth is 0."""
    max_exponent = CONSTANT[measured]
    text = f"supported with exponents up to {max_exponent:g}, which count as no growth"
    return Rule(text, (_next_float(max_exponent),), ("supported", "refuted"))


def growing(measured: Literal["bytes", "times"]) -> Rule:
    """The exponent of the growth is not 0."""
    max_exponent = CONSTANT[measured]
    text = f"supported with exponents above {max_exponent:g}; up to that, it counts as no growth"
    return Rule(text, (_next_float(max_exponent),), ("refuted", "supported"))


def because_of() -> Rule:
    """The share of an effect that is left, on a logarithmic scale, once its other possible cause is taken away."""
    text = (
        f"supported if at least {UNEXPLAINED:g} of the effect (on a log scale) is left without its other possible "
        f"cause, refuted up to {EXPLAINED:g}"
    )
    return Rule(text, (_next_float(EXPLAINED), UNEXPLAINED), ("refuted", "partly", "supported"))


def share_left(effect, remaining):
    """The share of an effect that is left, in logarithms. Both are ratios, or arrays of them; less than SAME is no
    effect, and a share below 0 counts as none."""
    return np.maximum(0, np.log(remaining) / np.log(np.maximum(effect, SAME)))


def exactly(text: str) -> Rule:
    """Only equality counts; the judge itself compares."""
    return Rule(text)


def _next_float(bound: float) -> float:
    """The first number after `bound`, so that `bound` itself still belongs below."""
    return math.nextafter(bound, math.inf)
