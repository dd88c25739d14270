"""Records as they would be without an effect, and the verdict on a claim from them."""

from rlrepro.cases import all_claims
from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST
from rlrepro.evidence import Records


def judge(claim_id, records):
    (claim,) = (claim for claim in all_claims() if claim.id == claim_id)
    return claim.verdict(records).outcome


def changed(records, name, value, **setting):
    """The records with another value where name and setting match; `value` may be a function of the record."""
    selected = {id(record) for record in records.where(name, **setting)}
    assert selected
    return Records(
        record.model_copy(update={"value": value(record) if callable(value) else value, "spread": (1.2, 1.4)})
        if id(record) in selected
        else record
        for record in records
    )


def change(name, value, **setting):
    """A function that makes this change to records."""
    return lambda records: changed(records, name, value, **setting)


def as_if(release):
    """A function that turns records into what they would be if `release` had been measured in place of each release."""

    def measured(record, records):
        if record.setting.get("release") not in (BUGGY, FIXED, NEWEST):
            return record
        setting = {**record.setting, "release": release}
        twins = [candidate for candidate in records if candidate.name == record.name and candidate.setting == setting]
        return record.model_copy(update={"value": twins[0].value}) if twins else record

    return lambda records: Records(measured(record, records) for record in records)
