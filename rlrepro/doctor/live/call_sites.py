"""Find the line of the library that called a network or a buffer, and the project's own line."""

import sys
from functools import cache
from pathlib import Path

from rlrepro.doctor.live.notes import Place

HERE = str(Path(__file__).parent)
PASSED_OVER = ("torch", "tensordict", "contextlib")  # they call networks on behalf of others
NETWORKS = ("forward", "__call__", "_call_impl", "_wrapped_call_impl")
INSTALLED = ("site-packages", "dist-packages", "/lib/python")


def places(owner=None) -> tuple[Place, Place | None]:
    """The innermost line outside of a network, in a method of `owner` if there is one, and the innermost line of the
    project, or None if there is none."""
    innermost = method = own_place = None
    frame, own_folders, passed_over = sys._getframe(1), _own_folders(), _files(*PASSED_OVER)
    while frame is not None:
        code = frame.f_code
        path, function = code.co_filename, code.co_name
        if not path.startswith((HERE, "<frozen", *passed_over)):
            place = Place(path, frame.f_lineno, function)
            if innermost is None or innermost.function in NETWORKS:
                innermost = place
            if function not in NETWORKS:
                if method is None and owner is not None and frame.f_locals.get("self") is owner:
                    method, own_place = place, None  # lines further in belong to a network, even the project's
                if own_place is None and _is_own(path, own_folders):
                    own_place = place
        frame = frame.f_back
    return method or innermost or Place(sys.argv[0] or "?", 1, "?"), own_place


@cache
def _own_folders() -> tuple[str, ...]:
    """The working folder and the script's folder at the first call; a program may remove them later."""
    try:
        working_folder = Path.cwd()
    except FileNotFoundError:
        return ("/nowhere",)
    return str(working_folder), str((working_folder / (sys.argv[0] or ".")).parent)


def _files(*modules: str) -> list[str]:
    """The paths of those modules that are loaded: a package's folder, or a module's file."""
    files = [getattr(sys.modules.get(name), "__file__", None) or "<none" for name in modules]
    return [file.removesuffix("__init__.py") for file in files]


def _is_own(path: str, own_folders: tuple[str, ...]) -> bool:
    if any(folder in path for folder in INSTALLED):
        return False
    return "ipykernel_" in path or path.startswith(own_folders) or not path.startswith(("/", "<"))
