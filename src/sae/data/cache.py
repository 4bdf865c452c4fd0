"""Decoded data sets on disk, so that a second start is instant and processes share memory.

An entry is a folder of uncompressed `.npy` files, named by a hash of its source's content. It is written
in a working folder, synced and then renamed. If several processes write the same entry at once, one
of them wins and the others use its result. An entry whose files are not as they were written is made again.

A source is identified by its content, not by its name, size or time: an edited file is another source even if its old
size and time are restored. To hash gigabytes once instead of at every start, a hash is remembered together with the
status of the files, which includes the time of their last change of any kind (ctime); that time cannot be set back.
"""

import hashlib
import json
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sae.core.errors import DataError
from sae.data.dataset import Array
from sae.data.locations import CACHE_VARIABLE, cache_root

DECODED, SEAL = "decoded", "entry.json"
BEGINNING = 1 << 16
"""Bytes of a file that are checked before an entry is used."""
ABANDONED_SECONDS = 24 * 3600.0
"""Without locks, a working folder older than this is taken as left by a killed process."""
LARGEST_IN_MEMORY = 2**30
"""Larger arrays, in bytes, are mapped from disk."""
SETTLED_SECONDS = 2.0
"""A change at least this old cannot share its time with a later change."""


def cached(reader: str, version: int, source: object, write: Callable[[Path], None]) -> Path:
    """Return the folder of a decoded set, and call `write` to fill it if it does not exist or is damaged.

    Args:
        reader: Name of the reader that decodes.
        version: Version of the reader's output; raise it whenever that changes.
        source: JSON value that identifies the source: hashes of its content, and how it is decoded.
        write: Function that fills a folder.
    """
    folder = entry_folder(reader, version, source)
    if folder.is_dir():
        if is_whole(folder):
            return folder
        delete_entry(folder)
    try:
        with working_folder(folder.name) as temporary:
            content = temporary / "content"
            content.mkdir()
            write(content)
            _seal(content)
            _rename(content, folder)
    except OSError as error:
        if error.filename and not _is_of_cache(Path(error.filename)):
            raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
        raise DataError(
            f"decoded data cannot be written to {folder.parent}: {error.strerror or error} "
            f"({error.filename or folder.name}). Free some space, or set {CACHE_VARIABLE} to another folder"
        ) from error
    return folder


@contextmanager
def working_folder(name: str) -> Iterator[Path]:
    """Give a temporary hidden folder in the cache; first delete the ones that killed processes left.

    Args:
        name: Part of its name, for people.
    """
    parent = cache_root() / DECODED
    parent.mkdir(parents=True, exist_ok=True)
    sweep()
    with ExitStack() as stack:
        folder = _hold_new(parent, name, stack)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Delete the working folders of processes that were killed."""
    for folder in (cache_root() / DECODED).glob(".*"):
        with suppress(OSError), _held(folder):  # refused: it is in use, or was just deleted
            shutil.rmtree(folder, ignore_errors=True)


def _hold_new(parent: Path, name: str, stack: ExitStack) -> Path:
    """Make a folder and lock it; try again if another process deletes it in between."""
    while True:
        folder = parent / f".{name}.{uuid.uuid4().hex}"
        folder.mkdir()
        with suppress(BlockingIOError, FileNotFoundError):
            stack.enter_context(_held(folder))
            if folder.is_dir():
                return folder


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a folder; the system releases the lock of a killed process. Raise BlockingIOError if it is locked."""
    with (folder / "lock").open("a") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows: a young folder may be in use
            if 1 < time.time() - folder.stat().st_ctime < ABANDONED_SECONDS:
                raise BlockingIOError(str(folder)) from None
        yield


def is_whole(folder: Path) -> bool:
    """Return whether an entry is undamaged: it has all its files, with their sizes and beginnings."""
    try:
        sealed = json.loads((folder / SEAL).read_bytes())
        return isinstance(sealed, dict) and sealed == _marks(folder)
    except (OSError, ValueError, RecursionError):
        return False


def _seal(folder: Path) -> None:
    """Record the files of an entry, and sync everything to disk before the entry gets its name."""
    (folder / SEAL).write_text(json.dumps(_marks(folder)), encoding="utf-8")
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _marks(folder: Path) -> dict[str, list[int | str]]:
    """Return the size of every file and a hash of its beginning, which holds shapes and types."""
    marks: dict[str, list[int | str]] = {}
    for path in sorted(folder.iterdir()):
        if path.name != SEAL:
            with path.open("rb") as file:
                marks[path.name] = [path.stat().st_size, hashlib.sha256(file.read(BEGINNING)).hexdigest()]
    return marks


@dataclass(frozen=True)
class Entry:
    """An entry of the cache: the reader that decoded it, its bytes, and when it was last used or written."""

    folder: Path
    reader: str
    bytes: int
    used: float


def entries() -> list[Entry]:
    """Return the entries of the cache, the largest first."""
    found = []
    for folder in (cache_root() / DECODED).glob("[!.]*"):
        with suppress(OSError):  # another process is deleting it
            size = sum(path.stat().st_size for path in folder.iterdir() if path.name != SEAL)
            found.append(Entry(folder, folder.name.rpartition("-")[0], size, folder.stat().st_mtime))
    return sorted(found, key=lambda entry: -entry.bytes)


def clear() -> None:
    """Delete all entries, remembered hashes, and folders of killed processes; a set in use stays readable."""
    for entry in entries():
        delete_entry(entry.folder)
    sweep()
    shutil.rmtree(cache_root() / "hashes", ignore_errors=True)


def entry_folder(reader: str, version: int, source: object) -> Path:
    """Return the folder of an entry, whether it exists or not."""
    digest = hashlib.sha256(json.dumps([version, source]).encode()).hexdigest()[:24]
    return cache_root() / DECODED / f"{reader}-{digest}"


def make_room(reader: str, own: str, most: int) -> bool:
    """Delete the least recently used entries of a reader until the rest takes at most `most` bytes.

    Args:
        reader: Prefix of the names of the entries.
        own: Prefix of the names of entries in use, which are never deleted.
        most: Largest size of all entries, in bytes.

    Returns:
        Whether the rest takes at most `most` bytes.
    """
    kept = [entry for entry in entries() if entry.folder.name.startswith(f"{reader}-")]
    total = sum(entry.bytes for entry in kept)
    for entry in sorted(kept, key=lambda entry: entry.used):
        if total > most and not entry.folder.name.startswith(own):
            delete_entry(entry.folder)
            total -= entry.bytes
    return total <= most


def delete_entry(folder: Path) -> None:
    """Delete an entry; a reader finds all of it or nothing."""
    hidden = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    with suppress(OSError):  # another process was faster
        folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def read_array(folder: Path, name: str) -> Array:
    """Return an array of an entry, mapped into memory and read-only."""
    array: Array = np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
    return array


def write_rows(path: Path, shape: tuple[int, ...], dtype: DTypeLike, rows: Iterable[Array]) -> None:
    """Write an array piece by piece, so that it need not fit into memory."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for row in rows:
            file.write(np.ascontiguousarray(row, dtype).data)


def roomy(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return an array to fill, in memory or, if it is large, mapped from a nameless file in the cache folder.

    The file disappears with the array, also if the process is killed.
    """
    if math.prod(shape) * 8 <= LARGEST_IN_MEMORY:
        return np.empty(shape)
    with nameless_file() as file:
        file.truncate(math.prod(shape) * 8)
        return np.memmap(file, np.float64, "r+", shape=shape)


def nameless_file() -> IO[bytes]:
    """Open a file in the cache folder that has no name, and so leaves nothing behind."""
    try:
        cache_root().mkdir(parents=True, exist_ok=True)
        return TemporaryFile(dir=cache_root())
    except OSError as error:
        raise DataError(
            f"large data need room in {cache_root()}: {error.strerror or error}. Set {CACHE_VARIABLE} to another folder"
        ) from None


def _is_of_cache(path: Path) -> bool:
    """Return whether a path is in the cache folder, or is a folder that this one is to be made in."""
    return path.is_relative_to(cache_root()) or cache_root().is_relative_to(path)


def _rename(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, and its result is the same
            raise


def content_identity(folder: Path, names: Sequence[str]) -> str:
    """Return a hash of the names and contents of files.

    Args:
        folder: Base of the names; it is not part of the hash, so that files can be moved.
        names: Relative paths, always in the same order.
    """
    try:
        states = [_state(folder / name) for name in names]
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from None
    memory = cache_root() / "hashes" / _digest([list(names), states])
    with suppress(OSError):
        return memory.read_text(encoding="ascii")
    found = _digest([[name, _hash(folder / name)] for name in names])
    if all(changed / 1e9 < time.time() - SETTLED_SECONDS for *_, changed in states):
        _remember(memory, found)
    return found


def file_identity(path: Path) -> str:
    """Return a hash of the content of a file."""
    return content_identity(path.parent, [path.name])


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _remember(memory: Path, found: str) -> None:
    temporary = memory.with_name(f".{memory.name}.{os.getpid()}")
    with suppress(OSError):  # then it is hashed again the next time
        memory.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(found, encoding="ascii")
        temporary.replace(memory)
