"""What a claim and a verdict are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rlrepro.evidence.records import MissingRecord, Records

Outcome = Literal["supported", "refuted", "partly", "not testable here"]


@dataclass(frozen=True)
class Verdict:
    """What measurements say of a claim: the outcome, the figure it rests on, and why in one line."""

    outcome: Outcome
    figure: str
    why: str


@dataclass(frozen=True)
class Claim:
    """A sentence of an article and the function that judges it by records, and by nothing else."""

    id: str
    sentence: str
    chapter: str  # the notebook that measures it
    section: str  # the heading there under which it does
    judge: Callable[[Records], Verdict]

    def verdict(self, records: Records) -> Verdict:
        """The verdict of these records; "not testable here", with what is missing, where one is wanting."""
        try:
            return self.judge(records)
        except MissingRecord as missing:
            return Verdict("not testable here", "–", f"{missing}; notebook {self.chapter} makes it")
