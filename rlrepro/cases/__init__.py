"""The documented problems: every package in this folder is a case, except `common`, which the cases share."""

import importlib
import pkgutil
from functools import partial
from types import ModuleType

from rlrepro.evidence.schema import DECLARED_BY_CASE

NAMES = [module.name for module in pkgutil.iter_modules(__path__) if module.name != "common"]


def all_cases() -> list[ModuleType]:
    """The package of each case."""
    return [importlib.import_module(f"{__name__}.{name}") for name in NAMES]


def case_of(chapter: str) -> ModuleType | None:
    """The case that a notebook covers, by the notebook's stem, or None if it does not cover a case."""
    return next((case for case in all_cases() if chapter == case.CHAPTER), None)


def chapters() -> dict[str, str]:
    """The name of each chapter's case, by the chapter's number."""
    numbers = {int(case.CHAPTER.split("_")[0]): name for name, case in zip(NAMES, all_cases(), strict=True)}
    return {str(number): name for number, name in sorted(numbers.items())}


def all_claims() -> list:
    """The claims of all cases, sorted by chapter."""
    return sorted((claim for case in all_cases() for claim in case.CLAIMS), key=lambda claim: claim.chapter)


def _records_of(name: str):
    return importlib.import_module(f"{__name__}.{name}").RECORDS


DECLARED_BY_CASE |= {name: partial(_records_of, name) for name in NAMES}
