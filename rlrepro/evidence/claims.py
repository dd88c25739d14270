"""Claims, and the verdicts that records give on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.evidence.rules import UNTESTED, Finding, Outcome, Rule, Verdict

__all__ = ["UNTESTED", "Article", "Claim", "Finding", "Outcome", "Premise", "Verdict"]


@dataclass(frozen=True)
class Article:
    """Where claims come from. `quotes` has the sentence behind each claim, in the original, by the claim's id."""

    title: str
    original_title: str  # the same as `title` for an article in English
    release: str  # of the library, that it spoke of
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

    The judge returns a `Finding`, which the claim's `rule` decides, or decides by itself and returns a `Verdict`.
    """

    id: str
    sentence: str
    chapter: str  # the notebook that measures it
    section: str  # the heading there under which it does
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
            given = self.premise and self.premise.verdict(records)
            if given and given.outcome != "supported":
                counts = self.premise.rule.says.removeprefix("supported ")
                why = f"{self.premise.effect} does not occur on this machine; it counts {counts}"
                return Verdict(UNTESTED, given.figure, why, given.firm)
            found = self.judge(records)
        except MissingRecord as missing:
            return Verdict(UNTESTED, "–", f"{missing}; notebook {self.chapter} measures it")
        if isinstance(found, Finding):
            found = self.rule.judge(found)
        elif self.rule:
            found = replace(found, why=f"{found.why}; {self.rule.says}")
        if given and not given.firm:
            found = replace(found, why=f"{found.why}; {self.premise.effect} may be noise: {given.figure}", firm=False)
        return found
