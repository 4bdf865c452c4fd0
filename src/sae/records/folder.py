"""A folder of ours: every file is whole or absent, and one process works in it at a time."""

import csv
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from sae.core.errors import BusyError, RecordError

Arrays = dict[str, NDArray[np.generic]]
FileModel = TypeVar("FileModel", bound=BaseModel)

LOCK = ".lock"
LOCK_PATIENCE = 5.0
"""Seconds to wait for another process, which may be about to end."""
START_OVER = "start over with --force"


class Folder:
    """Reads and writes files of a folder; every file is written under a temporary name and renamed.

    Attributes:
        path: The folder.
        advice: What a user should do about a damaged file.
    """

    def __init__(self, path: Path, advice: str = START_OVER) -> None:
        self.path, self.advice = path, advice

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out; the system releases the lock even if this process is killed."""
        try:
            import fcntl
        except ImportError:  # Windows has no lock that a killed process releases
            yield
            return
        give_up = time.monotonic() + LOCK_PATIENCE
        with self._open_lock() as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        raise BusyError(f"{self.path} is in use by another process: wait for it, or stop it") from None
                    time.sleep(0.05)
            yield

    def is_busy(self) -> bool:
        """Return whether a process works in the folder, as far as this system can tell.

        Nothing is written. A shared lock is held for an instant, which `lock` waits out.
        """
        try:
            import fcntl

            with (self.path / LOCK).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (ImportError, OSError):  # Windows; never locked, or no permission to look
            return False
        return False

    def _open_lock(self) -> IO[str]:
        try:
            return (self.path / LOCK).open("a")
        except OSError as error:
            raise RecordError(f"{self.path} must be a writable folder ({error.strerror})") from None

    def has(self, name: str) -> bool:
        """Return whether a file is there."""
        return (self.path / name).exists()

    def write_text(self, name: str, text: str) -> None:
        """Write a text file, whole or not at all."""
        self._replace(name, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        self._replace(name, lambda temporary: temporary.write_bytes(content))

    def write_json(self, name: str, values: Mapping[str, object]) -> None:
        """Write a mapping as JSON; NaN and infinity are refused, because JSON has neither."""
        self.write_text(name, json.dumps(values, indent=2, allow_nan=False) + "\n")

    def read_model(self, name: str, model: type[FileModel]) -> FileModel:
        """Read a JSON file into its type; anything else in it is damage, reported with the advice."""
        with self._reading(name) as path:
            content = path.read_bytes()
        try:
            return model.model_validate_json(content, strict=True)
        except ValidationError as error:
            raise RecordError(f"{self.path / name} is damaged ({_first_problem(error)}): {self.advice}") from None

    def write_rows(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Write rows that share their keys as CSV."""

        def write(temporary: Path) -> None:
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
                writer.writeheader()
                writer.writerows(rows)

        self._replace(name, write)

    def read_rows(self, name: str) -> list[dict[str, str]]:
        """Read rows of CSV with all values as text; a row that was cut short is damage."""
        try:
            with self._reading(name) as path, path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file, strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            raise RecordError(f"{self.path / name} is damaged ({error}): {self.advice}") from None
        if any(None in row or None in row.values() for row in rows):
            raise RecordError(f"{self.path / name} is damaged (rows must be as long as the header): {self.advice}")
        return rows

    def write_arrays(self, name: str, arrays: Arrays, metadata: dict[str, str] | None = None) -> None:
        """Write named arrays as safetensors."""
        from safetensors.numpy import save

        content = save(arrays, metadata)  # its save_file hides a full disk behind an error of its own
        self.write_bytes(name, content)

    def read_arrays(self, name: str) -> tuple[Arrays, dict[str, str]]:
        """Read named arrays and the metadata beside them."""
        from safetensors import SafetensorError, safe_open

        try:
            with self._reading(name) as path, safe_open(path, framework="np") as file:
                return {key: np.array(file.get_tensor(key)) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        except SafetensorError as error:
            raise RecordError(f"{self.path / name} is damaged or cut short ({error}): {self.advice}") from None

    @contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        """Give the path of a file; turn a missing or unreadable one into a RecordError."""
        try:
            yield self.path / name
        except FileNotFoundError:
            raise RecordError(f"{self.path / name} is missing: {self.advice}") from None
        except OSError as error:
            raise RecordError(f"{self.path / name} cannot be read ({error.strerror or error}): {self.advice}") from None

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        write_whole(self.path / name, write)


def _first_problem(error: ValidationError) -> str:
    """Say where the first problem of a file is and what it is."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, sync and rename it, so that it is whole or absent.

    Args:
        path: The file.
        write: Writes the content to the path that it is given.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RecordError(
            f"{path} could not be written ({error.strerror}): the file that was there before is unchanged; "
            f"make room or choose another folder, then run the same command again"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
