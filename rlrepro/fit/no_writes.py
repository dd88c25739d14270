"""Keeps a planned script from changing files: it writes to copies, and deletes only what it has created."""

import builtins
import io
import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensor

DEVICES = ("dev",), ("proc",), ("sys",)


@contextmanager
def nothing_saved():
    """Let checkpoints be saved, by `torch.save`, which then does nothing, or by pickle, without the tensors."""
    with (
        patch.object(torch, "save", lambda *_, **__: None),
        patch.object(FakeTensor, "__reduce_ex__", lambda *_: (torch.zeros, (0,))),
    ):
        yield


@contextmanager
def files_unchanged():
    """In this context, Python code that opens a file for writing gets a copy, which it can read again. Only files and
    folders that it created are deleted or moved, and empty ones of these folders are deleted at the end. Libraries that
    write from C, and programs that are started, still write to the real files."""
    with tempfile.TemporaryDirectory(prefix="rlrepro-fit-") as folder, ExitStack() as stack:
        copies = _Copies(Path(folder).resolve())
        stack.callback(copies.delete_empty_folders)
        for owner, name, function in copies.replacements():
            stack.enter_context(patch.object(owner, name, function))
        yield


class _Copies:
    def __init__(self, folder: Path):
        self._folder = folder
        self._copies = {}  # by the path of the file
        self._created = []  # folders and temporary files

    def replacements(self):
        """(owner, name, function) of each function to replace."""
        yield from ((module, "open", self._opening(io.open)) for module in (builtins, io))
        yield from ((os, name, self._creating(getattr(os, name))) for name in ("open", "mkdir"))
        yield from ((os, name, self._changing(getattr(os, name))) for name in ("chmod", "utime"))
        yield from ((os, name, self._deleting(getattr(os, name))) for name in ("remove", "unlink", "rmdir"))
        yield from ((os, name, self._moving(getattr(os, name))) for name in ("rename", "replace"))
        yield shutil, "rmtree", self._deleting(shutil.rmtree)

    def _opening(self, open_file):
        def opened(file, mode="r", *args, **kwargs):
            return open_file(self._copy(file, mode), mode, *args, **kwargs)

        return opened

    def _copy(self, file, mode: str):
        """The path to open in place of `file`."""
        if isinstance(file, int):
            return file
        path = _absolute(file)
        if path.parts[1:2] in DEVICES or path.is_relative_to(self._folder):
            return file
        if path not in self._copies and set(mode) & set("wax+"):
            if not path.parent.is_dir() or ("x" in mode and path.exists()) or ("r" in mode and not path.exists()):
                return file  # opening it raises the usual error
            copy = self._folder / f"{len(self._copies)}-{path.name}"
            if path.exists() and "w" not in mode:
                shutil.copyfile(path, copy)
            self._copies[path] = copy
        return self._copies.get(path, file)

    def _creating(self, create):
        def created(path, flags=0o777, *args, **kwargs):
            result = create(path, flags, *args, **kwargs)
            if create.__name__ == "mkdir" or flags & os.O_EXCL:
                self._created.append(_absolute(path))
            return result

        return created

    def _changing(self, change):
        def changed(path, *args, **kwargs):
            if isinstance(path, int) or _absolute(path) not in self._copies:
                change(path, *args, **kwargs)

        return changed

    def _deleting(self, delete):
        def deleted(path, *args, **kwargs):
            if self._copies.pop(_absolute(path), None) is None and self._is_free(path):
                delete(path, *args, **kwargs)

        return deleted

    def _moving(self, move):
        def moved(source, target, **kwargs):
            copy = self._copies.pop(_absolute(source), None)
            if copy is not None:
                self._copies[_absolute(target)] = copy
            elif self._is_free(source) and self._is_free(target):
                move(source, target, **kwargs)

        return moved

    def _is_free(self, path) -> bool:
        """Whether nothing is at this path, or only what the script created."""
        path = _absolute(path)
        return not os.path.lexists(path) or any(path.is_relative_to(own) for own in (*self._created, self._folder))

    def delete_empty_folders(self) -> None:
        for path in reversed(self._created):
            with suppress(OSError):
                path.rmdir()


def _absolute(path) -> Path:
    return Path(os.fsdecode(path)).resolve()
