"""Claims, and the verdicts that records give on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rlrepro.evidence.records import MissingRecord, Records

Outcome = Literal["supported", "refuted", "partly", "not testable here"]


@dataclass(frozen=True)
class Verdict:
    """What the measurements say about a claim: the outcome, the figure it rests on, and the reason in one line."""

    outcome: Outcome
    figure: str
    why: str


@dataclass(frozen=True)
class Claim:
    """A sentence from an article, and the function that judges it from records alone."""

    id: str
    sentence: str
    chapter: str  # the notebook that measures it
    section: str  # the heading there under which it does
    judge: Callable[[Records], Verdict]

    def verdict(self, records: Records) -> Verdict:
        """The verdict by these records; "not testable here", with what is missing, if the judge lacks a record."""
        try:
            return self.judge(records)
        except MissingRecord as missing:
            return Verdict("not testable here", "–", f"{missing}; notebook {self.chapter} measures it")
