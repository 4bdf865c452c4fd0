"""A folder of ours: files that are whole or not there, and at most one process at work in it."""

import csv
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import BusyError, RecordError

Arrays = dict[str, NDArray[Any]]

LOCK = ".lock"
LOCK_PATIENCE = 5.0
"""Seconds to wait for another process, which may be on its way out."""


class Folder:
    """Reads and writes files of a folder; every file is written under a temporary name and renamed.

    Attributes:
        path: The folder.
    """

    ADVICE: ClassVar[str] = "start over with --force"
    """What to do about a damaged file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out for a while; the system lets go of it also if this process is killed."""
        try:
            import fcntl
        except ImportError:  # Windows: nothing to be had that a killed process lets go of
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
                        raise BusyError(
                            f"one process at a time may work in {self.path}, however another is at it: "
                            f"wait for it, or end it"
                        ) from None
                    time.sleep(0.05)
            yield

    @property
    def is_busy(self) -> bool:
        """Whether a process is at work in it, as far as this system can tell.

        Nothing is written. A shared lock is held for an instant, which `lock` waits out.
        """
        try:
            import fcntl

            with (self.path / LOCK).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (ImportError, OSError):  # Windows; never locked, or not ours to look at
            return False
        return False

    def _open_lock(self) -> IO[str]:
        try:
            return (self.path / LOCK).open("a")
        except OSError as error:
            raise RecordError(
                f"{self.path} must be a folder that can be written to, however it is not ({error.strerror})"
            ) from None

    def write_text(self, name: str, text: str) -> None:
        """Write a text file as a whole or not at all."""
        self._replace(name, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def write_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a mapping as JSON; NaN and infinity are refused, they are no JSON."""
        self.write_text(name, json.dumps(values, indent=2, allow_nan=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a mapping."""
        try:
            with self._reading(name) as path:
                values = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RecordError(f"{self.path / name} is damaged ({error}): {self.ADVICE}") from None
        if not isinstance(values, dict):
            raise RecordError(
                f"{self.path / name} must hold a JSON object, got a {type(values).__name__}: {self.ADVICE}"
            )
        return values

    @contextmanager
    def expecting(self, name: str) -> Iterator[None]:
        """Say that a file is damaged where what it holds is not shaped as it should be."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{self.path / name} does not hold what it should ({error!r}): {self.ADVICE}") from None

    def write_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows that share their keys as CSV."""

        def write(temporary: Path) -> None:
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
                writer.writeheader()
                writer.writerows(rows)

        self._replace(name, write)

    def read_rows(self, name: str) -> list[dict[str, str]]:
        """Read rows of CSV, all values as texts; a row that was cut short is refused."""
        try:
            with self._reading(name) as path, path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file, strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            raise RecordError(f"{self.path / name} is damaged ({error}): {self.ADVICE}") from None
        if any(None in row or None in row.values() for row in rows):
            raise RecordError(f"{self.path / name} is damaged, its rows must be as long as its header: {self.ADVICE}")
        return rows

    def write_arrays(self, name: str, arrays: Arrays, metadata: dict[str, str] | None = None) -> None:
        """Write named arrays as safetensors."""
        from safetensors.numpy import save

        content = save(arrays, metadata)  # its save_file hides a full disk behind an error of its own
        self._replace(name, lambda temporary: temporary.write_bytes(content))

    def read_arrays(self, name: str) -> tuple[Arrays, dict[str, str]]:
        """Read named arrays and the metadata beside them."""
        from safetensors import SafetensorError, safe_open

        try:
            with self._reading(name) as path, safe_open(path, framework="np") as file:
                return {key: np.array(file.get_tensor(key)) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        except SafetensorError as error:
            raise RecordError(f"{self.path / name} is damaged or cut short ({error}): {self.ADVICE}") from None

    @contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        """The path of a file of this run; that it is missing or cannot be read is said in our words."""
        try:
            yield self.path / name
        except FileNotFoundError:
            raise RecordError(f"{self.path} must hold {name}, however it is missing: {self.ADVICE}") from None
        except OSError as error:
            reason = error.strerror or error
            raise RecordError(
                f"{self.path / name} must be a readable file, however it is not ({reason}): {self.ADVICE}"
            ) from None

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        write_whole(self.path / name, write)


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, sync and rename it, so that it is there as a whole or not at all.

    Args:
        path: The file.
        write: Writes what belongs there to the path that it is given.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RecordError(
            f"{path} could not be written ({error.strerror}): what was there before is untouched; "
            f"make room or name another folder, then run the same command again"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
