"""File trees: a folder, or a zip that is read without unpacking it."""

import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from sae.core.errors import DataError
from sae.data.cache import content_identity, file_identity

ZIP_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError),
)
"""Exceptions for archives that are damaged, encrypted (RuntimeError), or packed in a way that Python cannot unpack."""
LARGEST_TOTAL = 256 << 30
"""Largest unpacked size of an archive in bytes; no data set for this library is larger."""
HARMLESS_TOTAL = 256 << 20
"""Unpacked size in bytes up to which the compression ratio is not checked."""
LARGEST_RATIO = 200
"""Largest ratio of unpacked to packed size beyond `HARMLESS_TOTAL`; images are compressed already."""


class FileTree(Protocol):
    """Files by name.

    Attributes:
        path: The folder or zip file.
        names: Relative paths with forward slashes, sorted, without hidden files.
    """

    path: Path
    names: tuple[str, ...]

    def read(self, name: str) -> bytes:
        """Return the content of a file."""


class Folder:
    """A folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names = tuple(_walk(path))

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return _content(self.path / name)


class Files:
    """Files of a given list, in its order; names are relative to a folder, or whole paths."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return _content(self.path / name)


class Archive:
    """A zip file. If all its files are in one folder, `names` leaves that folder out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_zip(path) as archive:
            members = [
                info
                for info in archive.infolist()
                if info.filename and not info.is_dir() and _is_visible(info.filename)
            ]
        root = _shared_root([info.filename for info in members])
        self._members = {info.filename.removeprefix(root): info for info in members}
        self.names = tuple(sorted(self._members))
        self._file: zipfile.ZipFile | None = None

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        if self._file is None:
            self._file = open_zip(self.path)
        try:
            return self._file.read(self._members[name])
        except ZIP_DAMAGES as error:
            raise DataError(f"{self.path} is damaged: {name} cannot be read ({error})") from None

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self._file.close()  # type: ignore[union-attr]


def open_tree(path: Path) -> FileTree:
    """Open a folder or a zip as a file tree."""
    return Folder(path) if path.is_dir() else Archive(path)


def tree_identity(path: Path) -> str:
    """Return a hash of the content of a folder or zip."""
    return content_identity(path, _walk(path)) if path.is_dir() else file_identity(path)


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive after checking its table of contents; nothing is decompressed."""
    try:
        archive = zipfile.ZipFile(path)
    except ZIP_DAMAGES as error:
        raise DataError(f"{path} must be a zip archive, but cannot be opened: {error}") from None
    try:
        _check_members(archive, path)
    except DataError:
        archive.close()
        raise
    return archive


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse archives that could write outside their folder or fill the disk."""
    for info in archive.infolist():
        parts = PurePosixPath(info.filename.replace("\\", "/")).parts
        if ".." in parts or info.filename.startswith(("/", "\\")) or ":" in (parts or ("",))[0]:
            raise DataError(f"paths in an archive must not lead outside it, got {info.filename!r} in {path}")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise DataError(f"an archive must not contain links, got {info.filename!r} in {path}")
    total = sum(info.file_size for info in archive.infolist())
    ratio = total / max(1, path.stat().st_size)
    if total > LARGEST_TOTAL or (total > HARMLESS_TOTAL and ratio > LARGEST_RATIO):
        raise DataError(
            f"an archive must unpack to at most {LARGEST_RATIO} times its size and {LARGEST_TOTAL >> 30} GiB, "
            f"got {total:,} bytes ({ratio:,.0f} times its size) in {path}"
        )


def _walk(path: Path) -> list[str]:
    """Return the name of every visible file, sorted."""
    found, seen = [], set()
    for folder, subfolders, _ in os.walk(path, followlinks=True):
        if os.path.realpath(folder) in seen:  # a link back to a folder already visited
            subfolders.clear()
            continue
        seen.add(os.path.realpath(folder))
        prefix = Path(folder).relative_to(path).as_posix() + "/"
        with os.scandir(folder) as entries:
            for entry in entries:
                name = (prefix + entry.name).removeprefix("./")
                if entry.is_file() and _is_visible(name):
                    found.append(name)
    return sorted(found)


def _is_visible(name: str) -> bool:
    return not any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _shared_root(names: list[str]) -> str:
    """Return `thing/` if every name starts with it, unless it is the name of a split."""
    roots = {name.split("/")[0] for name in names}
    is_shared = len(roots) == 1 and all("/" in name for name in names)
    root = next(iter(roots)) if is_shared else ""
    return f"{root}/" if root and root not in ("train", "val", "test") else ""
