"""Decoded data sets on disk, so that a second start is instant and processes share memory.

An entry is a folder of uncompressed `.npy` files, named by a hash of its source. It is written
under a temporary name and then renamed. If several processes write the same entry at once, one
of them wins and the others use its result.
"""

import hashlib
import json
import math
import shutil
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sae.core.errors import DataError
from sae.data.dataset import Array
from sae.data.locations import CACHE_VARIABLE, cache_root

LARGEST_IN_MEMORY = 2**30
"""Bytes of an array above which it is mapped from disk."""


def cached(reader: str, version: int, source: object, write: Callable[[Path], None]) -> Path:
    """Return the folder of a decoded set, and call `write` to fill it if it does not exist.

    Args:
        reader: Name of the reader that decodes.
        version: Version of what the reader writes; raise it whenever that changes.
        source: JSON value that identifies the source: path, size, modification time.
        write: Function that fills a folder.
    """
    folder = entry_folder(reader, version, source)
    if folder.is_dir():
        return folder
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        _rename(temporary, folder)
    except OSError as error:
        if error.filename and not Path(error.filename).is_relative_to(cache_root()):
            raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
        raise DataError(
            f"decoded data cannot be written to {folder.parent}: {error.strerror or error} "
            f"({error.filename or folder.name}). Free some space, or set {CACHE_VARIABLE} to another folder"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def entry_folder(reader: str, version: int, source: object) -> Path:
    """Return the folder that an entry of the cache has, whether it exists or not."""
    digest = hashlib.sha256(json.dumps([version, source]).encode()).hexdigest()[:24]
    return cache_root() / "decoded" / f"{reader}-{digest}"


def make_room(reader: str, own: str, most: int) -> bool:
    """Delete the entries of a reader that were not used for longest until the rest takes at most `most` bytes.

    Args:
        reader: What the names of the entries begin with.
        own: What the names of entries that are never deleted begin with: those that are in use.
        most: Bytes that all entries may take.

    Returns:
        Whether the rest takes at most `most` bytes.
    """
    entries = []
    for folder in (cache_root() / "decoded").glob(f"{reader}-*"):
        with suppress(OSError):  # another process deletes it just now
            size = sum(path.stat().st_size for path in folder.iterdir())
            entries.append((folder.stat().st_mtime_ns, size, folder))
    total = sum(size for _, size, _ in entries)
    for _, size, folder in sorted(entries):
        if total > most and not folder.name.startswith(own):
            delete_entry(folder)
            total -= size
    return total <= most


def delete_entry(folder: Path) -> None:
    """Delete an entry; whoever reads it finds all of it or nothing."""
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

    The file is gone when nobody uses the array any more, also after a kill.
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


def file_identity(path: Path) -> list[str | int]:
    """Return a value that changes whenever a file changes, without reading it."""
    status = path.stat()
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def _rename(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, and its result is the same
            raise
