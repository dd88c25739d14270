"""Claims, and the verdicts that records give on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.evidence.rules import UNTESTED, Finding, Outcome, Rule, Verdict

__all__ = ["UNTESTED", "Article", "Claim", "Finding", "Outcome", "Premise", "Verdict"]


@dataclass(frozen=True)
class Article:
    """The source of claims. `quotes` maps a claim's id to the sentence behind it, in the original language."""

    title: str
    original_title: str  # the same as `title` for an article in English
    release: str  # of the library that it is about
    date: str = "date unknown"
    quotes: Mapping[str, str] = field(default_factory=dict)
    address: str = "its address is not known"

    def __str__(self) -> str:
        facts = [self.original_title] * (self.original_title != self.title) + [self.date, self.address]
        return f"“{self.title}” ({'; '.join(facts)}), about {self.release}"


@dataclass(frozen=True)
class Premise:
    """An effect that a claim takes for granted, and how to tell whether it occurs."""

    effect: str
    judge: Callable[[Records], Finding]
    rule: Rule

    def verdict(self, records: Records) -> Verdict:
        return self.rule.judge(self.judge(records))


@dataclass(frozen=True)
class Claim:
    """A sentence from an article, and the function that judges it from records alone.

    The judge returns a `Finding`, which the claim's `rule` turns into a verdict, or a `Verdict` of its own.
    """

    id: str
    sentence: str
    chapter: str  # the notebook that measures it
    section: str  # the heading under which the notebook measures it
    judge: Callable[[Records], Finding | Verdict]
    rule: Rule | None = None
    premise: Premise | None = None
    article: Article | None = None

    @property
    def quote(self) -> str:
        """The article's own sentence; empty if there is none."""
        return self.article.quotes.get(self.id, "") if self.article else ""

    def verdict(self, records: Records) -> Verdict:
        """The verdict by these records. It is "not testable here" if the claim's premise does not hold, or if a record
        is missing."""
        try:
            premise_verdict = self.premise and self.premise.verdict(records)
            if premise_verdict and premise_verdict.outcome != "supported":
                criterion = self.premise.rule.says.removeprefix("supported ")
                reason = f"{self.premise.effect} does not occur on this machine; it counts {criterion}"
                return Verdict(UNTESTED, premise_verdict.figure, reason, premise_verdict.firm)
            verdict = self.judge(records)
        except MissingRecord as error:
            return Verdict(UNTESTED, "–", f"{error} (measured in notebook {self.chapter})")
        if isinstance(verdict, Finding):
            verdict = self.rule.judge(verdict)
        elif self.rule:
            verdict = replace(verdict, why=f"{verdict.why}; {self.rule.says}")
        if premise_verdict and not premise_verdict.firm:
            verdict = replace(
                verdict, why=f"{verdict.why}; {self.premise.effect} may be noise: {premise_verdict.figure}", firm=False
            )
        return verdict
