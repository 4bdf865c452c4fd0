"""Decoded data sets on disk, so that a second start is instant and processes share their pages.

An entry is a folder of uncompressed `.npy` files, named by a hash of what it was made from. It
is written under a temporary name and renamed: when several processes make the same entry at
once, one wins and the others use it.
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sae.core.errors import DataError
from sae.data.dataset import Array
from sae.data.locations import CACHE_VARIABLE, cache_root


def cached(reader: str, version: int, source: Any, write: Callable[[Path], None]) -> Path:
    """The folder of a decoded set; made by `write` if it is not there.

    Args:
        reader: Name of what decodes.
        version: To be raised whenever the reader writes something else.
        source: What identifies the source, as JSON: path, size, time of change.
        write: Fills a folder.
    """
    digest = hashlib.sha256(json.dumps([version, source]).encode()).hexdigest()[:24]
    folder = cache_root() / "decoded" / f"{reader}-{digest}"
    if folder.is_dir():
        return folder
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        _rename(temporary, folder)
    except OSError as error:
        if error.filename and not Path(error.filename).is_relative_to(cache_root()):
            raise DataError(f"{error.filename} must be readable, however: {error.strerror}") from error
        raise DataError(
            f"decoded data must fit into {folder.parent}, however {error.strerror or error} "
            f"({error.filename or folder.name}): make room, or name another folder in {CACHE_VARIABLE}"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def read_array(folder: Path, name: str) -> Array:
    """An array of an entry, mapped into memory and read-only."""
    array: Array = np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
    return array


def write_rows(path: Path, shape: tuple[int, ...], dtype: Any, rows: Iterable[Array]) -> None:
    """Write an array piece by piece, so that it never needs to fit into memory."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for row in rows:
            file.write(np.ascontiguousarray(row, dtype).data)


def file_identity(path: Path) -> list[Any]:
    """What tells a file from another or from an earlier version of itself, without reading it."""
    status = path.stat()
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def _rename(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster, and its work is as good
            raise
