"""What the chapter shows where RLlib is missing."""

from functools import wraps

from rlrepro.evidence.records import Records


class Note(str):
    """A sentence in Markdown, for a notebook."""

    def _repr_markdown_(self) -> str:
        return self


def needs_rllib(function):
    """`function` of a Bench or of records; where RLlib is missing, it does nothing, and returns a note instead."""

    @wraps(function)
    def guarded(subject, *args, **options):
        records: Records = getattr(subject, "records", subject)
        lacks = records.get("value_pass.missing").value
        if lacks is not None:
            return Note(f"*Not measured: RLlib can't be imported here ({lacks}). Install `rlrepro[course,rllib]`.*")
        return function(subject, *args, **options)

    return guarded
