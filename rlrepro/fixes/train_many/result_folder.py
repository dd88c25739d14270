"""Results on disk, so that a finished run need not be repeated."""

import io
import os
import pickle
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

import cloudpickle
from filelock import FileLock, Timeout


class ResultFolder:
    """A folder with a file for each result, which only one call at a time may use."""

    def __init__(self, path: Path):
        self.path = path
        self._lock = FileLock(path / ".lock", timeout=0)

    def __enter__(self):
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self.save("writable", None)
            self._file("writable").unlink()
        except Timeout:
            raise RuntimeError(f"another call is using {self.path}; wait for it, or choose another folder") from None
        except OSError as error:
            self._lock.release()
            raise OSError(error.errno, f"can't write results: {error.strerror}", str(self.path)) from error
        return self

    def __exit__(self, *exc_info):
        self._lock.release()

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.pickle"

    def keys(self) -> set[str]:
        """The keys of all results."""
        return {path.stem for path in self.path.glob("*.pickle")}

    def load(self, key: str):
        """What was saved under this key, or None. A file that can't be read counts as missing, with a warning."""
        try:
            return pickle.loads(self._file(key).read_bytes())
        except FileNotFoundError:
            return None
        except Exception as error:
            warnings.warn(f"{self._file(key)} can't be read ({error!r}); that training run is repeated", stacklevel=2)
            return None

    def keep(self, key: str, result) -> None:
        """Save a result. Only warns if that is impossible, since the call still returns it."""
        try:
            self.save(key, result)
        except OSError as error:
            warnings.warn(
                f"a result could not be written to {self.path} ({error.strerror}): this call returns it, but a later "
                "one would compute it again. Check the disk",
                stacklevel=3,
            )

    def save(self, key: str, result) -> None:
        """Write a result so that a partial one is never left behind. Raises OSError."""
        temporary = self.path / f".{key}.partial"
        try:
            with temporary.open("wb") as file:
                cloudpickle.dump(result, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._file(key))
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


class _ByName(cloudpickle.Pickler):
    """Refers to the classes of the running script by their names, where cloudpickle would copy them."""

    def reducer_override(self, obj):
        if isinstance(obj, type) and obj.__module__ == "__main__":
            with suppress(AttributeError):
                if attrgetter(obj.__qualname__)(sys.modules["__main__"]) is obj:
                    return NotImplemented
        return super().reducer_override(obj)


def with_classes_by_name(pickled: bytes, value) -> bytes:
    """Pickle a value again, so that a later process gives its objects the classes that the script then defines."""
    file = io.BytesIO()
    if b"__main__" in pickled:
        with suppress(Exception):  # it can be pickled in its own process only
            _ByName(file).dump(value)
            return file.getvalue()
    return pickled


class NoResults:
    """For a caller that keeps its results itself."""

    path = None

    def keys(self) -> set[str]:
        return set()

    def load(self, key: str) -> None:
        return None

    def keep(self, key: str, result) -> None:
        pass


@contextmanager
def results_in(folder: str | Path | NoResults | None) -> Iterator[ResultFolder | NoResults]:
    """This folder for results. None means a temporary one, removed at the end unless the call is interrupted."""
    if isinstance(folder, NoResults):
        yield folder
        return
    is_temporary = folder is None
    path = Path(tempfile.mkdtemp(prefix="train_many-") if is_temporary else folder).absolute()
    with ResultFolder(path) as results:
        try:
            yield results
        except BaseException as error:
            if results.keys():
                advice = f"What has finished is kept: call again with resume={str(path)!r} for the rest."
                error.add_note(advice) if hasattr(error, "add_note") else warnings.warn(advice, stacklevel=2)  # 3.10
                is_temporary = False
            raise
        finally:
            if is_temporary:
                shutil.rmtree(path, ignore_errors=True)
