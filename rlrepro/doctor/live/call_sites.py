"""Whose line it was: the library's that called a network or a buffer, and the project's own."""

import sys
from functools import cache
from pathlib import Path

from rlrepro.doctor.live.notes import Place

HERE = str(Path(__file__).parent)
PASSED_OVER = ("torch", "tensordict", "contextlib")  # they call networks on behalf of others
NETWORKS = ("forward", "__call__", "_call_impl", "_wrapped_call_impl")
INSTALLED = ("site-packages", "dist-packages", "/lib/python")


def places(owner=None) -> tuple[Place, Place | None]:
    """The innermost line that is no network's, in a method of `owner` where there is one; and the innermost of the
    project, which is None where there is none."""
    innermost = method = own = None
    frame, here, passed_over = sys._getframe(1), _here(), _files(*PASSED_OVER)
    while frame is not None:
        code = frame.f_code
        path, function = code.co_filename, code.co_name
        if not path.startswith((HERE, "<frozen", *passed_over)):
            place = Place(path, frame.f_lineno, function)
            if innermost is None or innermost.function in NETWORKS:
                innermost = place
            if function not in NETWORKS:
                if method is None and owner is not None and frame.f_locals.get("self") is owner:
                    method, own = place, None  # what lies within is a network's, the project's own or not
                if own is None and _is_own(path, here):
                    own = place
        frame = frame.f_back
    return method or innermost or Place(sys.argv[0] or "?", 1, "?"), own


@cache
def _here() -> tuple[str, ...]:
    """The working folder, and the script's, at the first look; a program may remove them later."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return ("/nowhere",)
    return str(here), str((here / (sys.argv[0] or ".")).parent)


def _files(*modules: str) -> list[str]:
    """Where these modules lie, as far as they are loaded: a package's folder, a module's file."""
    found = [getattr(sys.modules.get(name), "__file__", None) or "<none" for name in modules]
    return [file.removesuffix("__init__.py") for file in found]


def _is_own(path: str, here: tuple[str, ...]) -> bool:
    if any(each in path for each in INSTALLED):
        return False
    return "ipykernel_" in path or path.startswith(here) or not path.startswith(("/", "<"))
