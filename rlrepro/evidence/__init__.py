"""Records of measurements and what follows from them: claims, verdicts, comparisons of runs, plots."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["figures"],
    submod_attrs={
        "claims": ["Claim", "Outcome", "Verdict"],
        "estimates": ["growth_exponent"],
        "schema": ["Quantity", "UndeclaredRecord"],
        "records": ["MissingRecord", "Record", "RecordBook", "Records", "read_records"],
    },
)
