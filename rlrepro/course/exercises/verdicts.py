"""Exercises of chapter 6: verdicts."""

from rlrepro.cases import all_claims
from rlrepro.course.exercises.core import Hint, exercise
from rlrepro.evidence.claims import Claim
from rlrepro.evidence.records import Records


class _LoggingRecords(Records):
    """Records that log the names they are queried for."""

    def __init__(self, records):
        super().__init__(records)
        self.queried_names = set()

    def where(self, name, **setting):
        self.queried_names.add(name)
        return super().where(name, **setting)


@exercise("6.1")
def record_behind_lo5(my_record, records):
    """The name of the record by which LO5 is judged."""
    (claim,) = (claim for claim in all_claims() if claim.id == "LO5")
    logging_records = _LoggingRecords(records)
    claim.verdict(logging_records)
    if my_record not in logging_records.queried_names:
        raise Hint(f"LO5 is not judged by {my_record!r}. Read its judge: inspect.getsource(claim.judge).")


@exercise("6.2")
def untestable_claims(my_claims, records):
    """The ids of the claims that these records can't judge."""
    expected = {claim.id for claim in all_claims() if claim.verdict(records).outcome == "not testable here"}
    actual = set(my_claims)
    if actual != expected:
        raise Hint(f"{len(actual - expected)} of yours can be judged, and {len(expected - actual)} are missing.")


@exercise("6.3")
def a_judge(my_judge, records):
    """A judge of "1.1.0 never needs more memory than 1.0.0", by the records of logp_old.peak."""
    peaks = records.all("logp_old.peak", network="nature")
    sizes = [peak.setting["rows"] for peak in peaks]

    def with_worse_fix(*worse_sizes):
        return [
            peak.model_copy(update={"value": 2**50})
            if peak.setting["release"] == "1.1.0" and peak.setting["rows"] in worse_sizes
            else peak
            for peak in peaks
        ]

    cases = {
        "as they were measured": (peaks, "supported"),
        "with 1.1.0 worse everywhere": (with_worse_fix(*sizes), "refuted"),
        "with 1.1.0 worse for the longest rollout": (with_worse_fix(max(sizes)), "refuted"),
        "with 1.1.0 worse for the shortest rollout": (with_worse_fix(min(sizes)), "refuted"),
        "without 1.0.0": ([p for p in peaks if p.setting["release"] != "1.0.0"], "not testable here"),
        "without 1.1.0": ([p for p in peaks if p.setting["release"] != "1.1.0"], "not testable here"),
    }
    claim = Claim("", "", "", "", my_judge)
    for name, (case_records, expected) in cases.items():
        if (outcome := claim.verdict(Records(case_records)).outcome) != expected:
            raise Hint(f"Given the records {name}, your judge returns {outcome!r}.")
