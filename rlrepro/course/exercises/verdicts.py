"""Exercises of chapter 6: verdicts."""

from rlrepro.cases import all_claims
from rlrepro.course.exercises.core import Hint, exercise
from rlrepro.evidence.claims import Claim
from rlrepro.evidence.records import Records


class _Asked(Records):
    """Records that note which names they are asked for."""

    def __init__(self, records):
        super().__init__(records)
        self.names = set()

    def where(self, name, **setting):
        self.names.add(name)
        return super().where(name, **setting)


@exercise("6.1")
def what_lo5_rests_on(my_record, records):
    """The name of the record that LO5 is judged by."""
    (claim,) = (claim for claim in all_claims() if claim.id == "LO5")
    asked = _Asked(records)
    claim.verdict(asked)
    if my_record not in asked.names:
        raise Hint(f"LO5 is not judged by {my_record!r}. Read its judge: inspect.getsource(claim.judge).")


@exercise("6.2")
def untestable(my_claims, records):
    """The ids of the claims that these records can't judge."""
    expected = {claim.id for claim in all_claims() if claim.verdict(records).outcome == "not testable here"}
    found = set(my_claims)
    if found != expected:
        raise Hint(f"{len(found - expected)} of yours can be judged, and {len(expected - found)} are missing.")


@exercise("6.3")
def a_judge(my_judge, records):
    """A judge of "1.1.0 never needs more memory than 1.0.0", by the records of logp_old.peak."""

    def outcome(found):
        return Claim("", "", "", "", my_judge).verdict(Records(found)).outcome

    peaks = records.all("logp_old.peak", network="nature")
    worse = [r.model_copy(update={"value": 2**50}) if r.setting["release"] == "1.1.0" else r for r in peaks]
    rows = [record.setting["rows"] for record in peaks]

    def once(one):
        return [w if w.setting["rows"] == one else p for w, p in zip(worse, peaks, strict=True)]

    cases = {
        "as they were measured": (peaks, "supported"),
        "with 1.1.0 worse everywhere": (worse, "refuted"),
        "with 1.1.0 worse for the longest rollout": (once(max(rows)), "refuted"),
        "with 1.1.0 worse for the shortest rollout": (once(min(rows)), "refuted"),
        "without 1.0.0": ([r for r in peaks if r.setting["release"] != "1.0.0"], "not testable here"),
        "without 1.1.0": ([r for r in peaks if r.setting["release"] != "1.1.0"], "not testable here"),
    }
    for name, (found, expected) in cases.items():
        if (said := outcome(found)) != expected:
            raise Hint(f"By the records {name}, your judge says {said!r}.")
