"""Folders that this package writes: every file is whole or absent, and one process works in a folder at a time."""

import csv
import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from sae.config.settings import Model, differences, read_settings, to_yaml
from sae.core.errors import BusyError, ConfigError, MissingPluginError, NotRegisteredError, RecordError
from sae.core.reading import check_regular, read_file
from sae.records.parsing import CsvTable, Numbers, is_finite, may_not_be_finite, places, plain_numbers, read_table
from sae.records.writing import write_whole

Arrays = dict[str, NDArray[np.generic]]
FileModel = TypeVar("FileModel", bound=BaseModel)

LOCK = ".lock"
LOCK_PATIENCE = 5.0
"""Seconds to wait for another process, which may be about to end."""
START_OVER = "start over with --force"
PERMISSION = "give this user the right to read it, and run the same command again"
LENGTHS = "lengths"
"""Folder for trainings of several lengths, of which the best is kept."""
ASIDE = ".sae-replaced"
"""Folder for files that are about to be deleted; only a killed command leaves it."""


class Folder:
    """Reads and writes files of a folder; every file is written under a temporary name and renamed.

    Attributes:
        path: The folder.
        advice: Advice to the user about a damaged file.
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

        Nothing is written. A shared lock is held for an instant; `lock` waits for it to end.
        """
        try:
            import fcntl

            with open(self.path / LOCK, opener=_opener) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (ImportError, OSError):  # Windows; never locked, or no permission to look
            return False
        return False

    def _open_lock(self) -> IO[str]:
        try:
            return open(self.path / LOCK, "a", opener=_opener)
        except OSError as error:
            raise RecordError(f"{self.path} must be a writable folder ({error.strerror})") from None

    def has(self, name: str) -> bool:
        """Return whether a file is there; refuse a folder that this user may not look into."""
        try:
            os.stat(f"{self.path}/{name}")  # noqa: PTH116 (a study asks often, and paths are slow)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self.unreadable(name, error) from None
        return True

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
        """Read a JSON file into its type; report anything else in it as damage, with the advice."""
        content = self._find(name)
        if content is None:
            raise self.unreadable(name, FileNotFoundError())
        return self._parse_model(name, content, model)

    def find_model(self, name: str, model: type[FileModel]) -> FileModel | None:
        """Read a JSON file into its type, as `read_model` does; None if it is missing."""
        content = self._find(name)
        return None if content is None else self._parse_model(name, content, model)

    def _find(self, name: str) -> bytes | None:
        """Return the content of a file; None if it is missing."""
        try:
            return read_file(f"{self.path}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self.unreadable(name, error) from None

    def _parse_model(self, name: str, content: bytes, model: type[FileModel]) -> FileModel:
        try:
            found = model.model_validate_json(content, strict=True)
        except ValidationError as error:
            raise RecordError(f"{self.path / name} is damaged ({first_problem(error)}): {self.advice}") from None
        if may_not_be_finite(content) and not is_finite(content):
            raise RecordError(f"{self.path / name} is damaged (numbers must be finite): {self.advice}")
        return found

    def write_rows(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Write rows that share their keys as CSV."""
        self._replace(name, partial(write_csv, rows))

    def read_rows(self, name: str) -> list[dict[str, str]]:
        """Read rows of CSV with all values as text; a row that was cut short is damage."""
        content = self.read_bytes(name)
        header, lines = self._table_of(name, content)
        return [dict(zip(header, line, strict=True)) for line in lines]

    def read_bytes(self, name: str) -> bytes:
        """Read a file at once."""
        with self._reading(name) as path:
            return read_file(str(path))

    def read_numbers(self, name: str, columns: Sequence[str]) -> Numbers:
        """Read columns of numbers from a CSV file, (row, column).

        A column that is missing is a KeyError, a text in one of them a ValueError.
        """
        content = self.read_bytes(name)
        found = plain_numbers(content, columns)
        if found is not None:
            return found
        header, lines = self._table_of(name, content)
        wanted = places(header, columns)
        numbers = [[float(line[place]) for place in wanted] for line in lines]
        return np.array(numbers, dtype=np.float64).reshape(-1, len(columns))

    def _table_of(self, name: str, content: bytes) -> CsvTable:
        """Return the header and the lines of a CSV file; lines are as long as the header."""
        try:
            text = content.decode("utf-8")
            header, lines = read_table(text)
        except (csv.Error, UnicodeDecodeError) as error:
            raise RecordError(f"{self.path / name} is damaged ({error}): {self.advice}") from None
        if any(len(line) != len(header) for line in lines):
            raise RecordError(f"{self.path / name} is damaged (rows must be as long as the header): {self.advice}")
        return header, lines

    def write_arrays(self, name: str, arrays: Arrays, metadata: dict[str, str] | None = None) -> None:
        """Write named arrays as safetensors."""
        from safetensors.numpy import save

        content = save(arrays, metadata)  # its save_file hides a full disk behind an error of its own
        self.write_bytes(name, content)

    def read_arrays(self, name: str) -> tuple[Arrays, dict[str, str]]:
        """Read named arrays and the metadata beside them."""
        from safetensors import SafetensorError, safe_open

        try:
            with self._reading(name) as path:
                path.open("rb").close()  # safetensors reports any failure as a missing file
            with self._reading(name) as path, safe_open(path, framework="np") as file:
                return {key: np.array(file.get_tensor(key)) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        except (SafetensorError, TypeError, ValueError) as error:  # the last two: a type of numbers that numpy lacks
            raise RecordError(f"{self.path / name} is damaged or cut short ({error}): {self.advice}") from None

    @contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        """Give the path of a regular file; turn a missing or unreadable one into a RecordError."""
        path = self.path / name
        try:
            check_regular(path.stat(), str(path))
            yield path
        except OSError as error:
            raise self.unreadable(name, error) from None

    def unreadable(self, name: str, error: OSError) -> RecordError:
        """Return the error for a file that cannot be read; a file without permission is not called missing."""
        path = self.path / name
        if isinstance(error, FileNotFoundError):
            return RecordError(f"{path} is missing: {self.advice}")
        if isinstance(error, PermissionError):
            return RecordError(f"{path} cannot be read ({error.strerror}): {PERMISSION}")
        advice = "choose a shorter name" if error.errno == errno.ENAMETOOLONG else self.advice
        return RecordError(f"{path} cannot be read ({error.strerror or error}): {advice}")

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        write_whole(self.path / name, write)


class Record(Folder, Generic[Model]):
    """A folder that was made with a config, and keeps it."""

    KIND: ClassVar[str]
    """Word for such a folder in messages."""
    MARK: ClassVar[str]
    """First line of its config; a folder with another first line is not ours to write to."""
    CONFIG: ClassVar[str]
    """Name of the config file."""
    FILES: ClassVar[tuple[str, ...]]
    """Names of the files that the folder may hold."""
    MAKER: ClassVar[str]
    """The command that makes it."""
    _made_for: Model | None = None
    """The config that `make` was called with."""

    def make(self, config: Model, *, force: bool = False) -> None:
        """Make the folder for this config, or check that it was made for it.

        A folder with another config is refused; `force` first deletes our files in it, and nothing else.
        """
        self.check_room(config, force=force)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if force or self.has(ASIDE) or not self.has(self.CONFIG):
                with self.lock():  # never while another process works in it, and what is cleared is made again at once
                    if force and self.has(self.CONFIG):
                        self.clear()
                    elif self.has(ASIDE):
                        shutil.rmtree(self.path / ASIDE)
                    if self.has(self.CONFIG):
                        self._check_config(config)
                    else:
                        self.write_text(self.CONFIG, f"{self.MARK}\n{to_yaml(config)}")
        except OSError as error:
            raise RecordError(f"{self.path} must be a writable {self.KIND} folder ({error.strerror})") from None
        self._made_for = config

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out; refuse a folder that one of them has started over with another config."""
        with super().lock():
            if self._made_for is not None:
                self._check_config(self._made_for)
            yield

    def check_room(self, config: Model, *, force: bool = False) -> None:
        """Refuse a folder that `make` would refuse: other files, or another config; nothing is written."""
        try:
            if self.has(self.CONFIG):
                self._check_is_ours()
            else:
                self._check_is_free()
        except OSError as error:
            raise RecordError(f"{self.path} must be a writable {self.KIND} folder ({error.strerror})") from None
        if self.has(self.CONFIG) and not force:
            self._check_config(config)

    def _check_is_free(self) -> None:
        nearest = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
        if not nearest.is_dir():
            raise RecordError(f"{nearest} is a file, but must be a {self.KIND} folder: choose another")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        found = self.path.iterdir() if nearest is self.path else ()
        strange = [entry.name for entry in found if entry.name not in (LOCK, ASIDE, LENGTHS) and entry.suffix != ".tmp"]
        if strange:
            raise RecordError(
                f"{self.path} must be empty or hold a {self.KIND}, but it holds {strange[0]}: choose another folder"
            )

    def is_made(self) -> bool:
        """Return whether the folder has a config that we wrote, as far as it can be read."""
        try:
            return self._has_mark()
        except OSError:
            return False

    def _has_mark(self) -> bool:
        file = self.path / self.CONFIG
        if not file.is_file():
            return False
        with file.open("rb") as content:
            return content.read(len(self.MARK)) == self.MARK.encode()

    def _check_is_ours(self) -> None:
        if not self._has_mark():
            file = self.path / self.CONFIG
            raise RecordError(f"{file} was not written by `{self.MAKER}` and is left alone: choose another folder")

    def _check_config(self, config: Model) -> None:
        changed = differences(self.read_config(), config)
        if changed:
            raise RecordError(
                f"{self.path} holds a {self.KIND} with another config ({'; '.join(changed[:5])}): "
                f"choose another folder, or start over with --force"
            )

    def read_config(self) -> Model:
        """Read the resolved config that the folder was made with."""
        raise NotImplementedError

    def own_files(self) -> Iterator[Path]:
        """Yield the files that we may have written, by their names; the config comes last."""
        raise NotImplementedError

    def clear(self) -> None:
        """Delete our files and nothing else.

        They are moved aside first. If one cannot be moved, all are moved back, and nothing is lost.
        """
        aside, moved = self.path / ASIDE, []
        try:
            for path in list(self.own_files()):
                if path.is_symlink() or path.is_file():  # a folder of that name is the user's
                    place = aside / path.relative_to(self.path)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(place)
                    moved.append((path, place))
        except OSError:
            for path, place in reversed(moved):
                place.replace(path)
            raise
        shutil.rmtree(aside, ignore_errors=True)
        folders = {parent for path, _ in moved for parent in path.relative_to(self.path).parents}
        for folder in sorted(folders - {Path()}, key=lambda folder: -len(folder.parts)):
            with suppress(OSError):  # it holds files of the user's
                (self.path / folder).rmdir()

    def remove(self) -> None:
        """Delete our files, and the folder if it holds nothing else."""
        self.clear()
        (self.path / LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # it holds files of the user's
            self.path.rmdir()

    def check_made(self) -> None:
        """Refuse a folder without a config."""
        if not self.has(self.CONFIG):
            raise RecordError(f"{self.path} is not a {self.KIND} folder: it has no {self.CONFIG} from `{self.MAKER}`")

    def _parse_config(self, model: type[Model]) -> Model:
        try:
            return read_settings(model, self.path / self.CONFIG)
        except NotRegisteredError as error:
            raise MissingPluginError(self.path, error) from None
        except ConfigError as error:
            self.check_made()
            raise RecordError(f"{self.path / self.CONFIG} cannot be used: {error}") from None


def _opener(path: str, flags: int) -> int:
    """Open a lock, but neither wait for a pipe in its place nor follow a link."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0), 0o666)


def write_csv(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    """Write rows that share their keys to a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a file with its place."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
