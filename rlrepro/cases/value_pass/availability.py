"""What the chapter shows where RLlib is missing."""

from functools import wraps

from rlrepro.evidence.records import Records


class Note(str):
    """A sentence in Markdown, for a notebook."""

    def _repr_markdown_(self) -> str:
        return self


def needs_rllib(function):
    """Make `function`, of a Bench or of records, return a note instead of running where RLlib is missing."""

    @wraps(function)
    def wrapper(subject, *args, **options):
        records: Records = getattr(subject, "records", subject)
        missing = records.get("value_pass.missing").value
        if missing is not None:
            return Note(f"*Not measured: RLlib can't be imported here ({missing}). Install `rlrepro[course,rllib]`.*")
        return function(subject, *args, **options)

    return wrapper
