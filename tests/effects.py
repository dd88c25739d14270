"""Records as they would be without an effect, and what a claim is judged to be by them."""

from rlrepro.cases import all_claims
from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST
from rlrepro.evidence import Records


def judge(claim_id, records):
    (claim,) = (claim for claim in all_claims() if claim.id == claim_id)
    return claim.verdict(records).outcome


def changed(records, name, value, **setting):
    """The records with another value in those of that name and setting; `value` may be computed from the record."""
    chosen = records.where(name, **setting)
    assert chosen
    return Records(
        record.model_copy(update={"value": value(record) if callable(value) else value, "spread": (1.2, 1.4)})
        if record in chosen
        else record
        for record in records
    )


def change(name, value, **setting):
    """A function of records that makes this change."""
    return lambda records: changed(records, name, value, **setting)


def as_if(release):
    """A function of records: what they would be had `release` been measured in the place of each release."""

    def measured(record, records):
        if record.setting.get("release") not in (BUGGY, FIXED, NEWEST):
            return record
        others = {**record.setting, "release": release}
        twin = [each for each in records if each.name == record.name and each.setting == others]
        return record.model_copy(update={"value": twin[0].value}) if twin else record

    return lambda records: Records(measured(record, records) for record in records)
