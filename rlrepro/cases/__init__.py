"""The documented problems, one package each. A package with `CLAIMS` is a case, and is found by being here."""

import importlib
import pkgutil


def all_claims() -> list:
    """The claims of every case, by chapter."""
    modules = (importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__))
    claims = [claim for module in modules for claim in getattr(module, "CLAIMS", ())]
    return sorted(claims, key=lambda claim: claim.chapter)
