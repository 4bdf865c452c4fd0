"""Folders of data files and of the cache, and the files in them.

None of this is part of a run's config: the folder of its data does not change a run. The command
line passes `--data-root` on in an environment variable, which worker processes inherit.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from sae.core.errors import DataError

DATA_ROOT_VARIABLE = "SAE_DATA_ROOT"
CACHE_VARIABLE = "SAE_CACHE"
CACHE_LIMIT_VARIABLE = "SAE_CACHE_LIMIT"
CACHE_LIMIT = 4.0
"""Gigabytes that corrupted images may take in the cache, unless the variable says otherwise."""
_hint: ContextVar[Path | None] = ContextVar("_hint", default=None)


@dataclass(frozen=True)
class PublishedFile:
    """A file that can be downloaded.

    Attributes:
        name: File name on disk.
        url: Address of the published file.
        md5: Checksum of the published file.
        unpacked: Name of the unpacked file or folder, which is used if the file is missing.
        sha256: Checksum of the unpacked content, if that is what a reader checks.
        folders: Folders in a data root that may hold it; downloads go to the first.
        elsewhere: Folders of system packages that may hold it; they are searched last.
    """

    name: str
    url: str
    md5: str
    unpacked: str | None = None
    sha256: str | None = None
    folders: tuple[str, ...] = ("",)
    elsewhere: tuple[str, ...] = ()


def choose_data_root(folder: Path | None) -> None:
    """Search this folder for data files first, in this process and in those it starts."""
    if folder is not None:
        os.environ[DATA_ROOT_VARIABLE] = str(folder)


def cache_root() -> Path:
    """Return `SAE_CACHE`, or the user's cache folder on this platform."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("sae"))


def cache_limit() -> int:
    """Return how many bytes corrupted images may take in the cache: `SAE_CACHE_LIMIT` gigabytes."""
    given = os.environ.get(CACHE_LIMIT_VARIABLE) or str(CACHE_LIMIT)
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise DataError(f"{CACHE_LIMIT_VARIABLE} must be a number of gigabytes, 0 or more, got {given!r}")
    return round(limit * 1e9)


def data_roots() -> list[Path]:
    """Return the folders of data files in search order; downloads go to the first."""
    given, hint = os.environ.get(DATA_ROOT_VARIABLE), _hint.get()
    return [*([Path(given)] if given else []), cache_root() / "files", *([hint] if hint else [])]


@contextmanager
def also_looking_in(folder: str | None) -> Iterator[None]:
    """Search this folder, too, within the context, after all others."""
    token = _hint.set(Path(folder) if folder else None)
    try:
        yield
    finally:
        _hint.reset(token)


def root_of(name: str, *, is_own: bool) -> str | None:
    """Return the folder in which data were found, to search it again later; None if the default folders suffice.

    Args:
        name: Name or path of the data.
        is_own: Whether it is the path of the user's own data.
    """
    if not is_own:
        given = os.environ.get(DATA_ROOT_VARIABLE)
        return str(Path(given).resolve()) if given else None
    path = Path(name).expanduser()
    return None if path.is_absolute() else str(_own_root(name).resolve())


def is_present(file: PublishedFile) -> bool:
    """Return whether a published file, or its unpacked folder, is in one of the roots."""
    return _first_present(file) is not None


def find_published(file: PublishedFile, dataset: str) -> Path:
    """Return the path of a published file; if it is missing, the error says how to get it."""
    found = _first_present(file)
    if found is None:
        searched = " or ".join(str(folder) for folder in _folders_of(file))
        raise DataError(
            f"{dataset} needs the file {file.name}, which is not in {searched}: "
            f"run `sae data fetch {dataset}`, or give its folder with --data-root"
        )
    return found


def find_own(name: str) -> Path:
    """Return the path of the user's own file or folder: as given, or in a data root."""
    path = Path(name).expanduser()
    found = path if path.is_absolute() and path.exists() else _own_root(name) / path
    check_kind(found)
    return found


def check_kind(path: Path) -> None:
    """Refuse data that are neither a file nor a folder: reading a pipe or a device could wait, or go on, for ever."""
    if not (path.is_file() or path.is_dir()):
        raise DataError(
            f"data must be a file or a folder, got {path}, which is a pipe or a device: write them to a file"
        )


def _own_root(name: str) -> Path:
    """Return the folder that a path of the user's own data is relative to: the working folder, or a data root."""
    path = Path(name).expanduser()
    for root in (Path(), *data_roots()):
        if (root / path).exists():
            return root
    raise DataError(f"data must be a name in the catalogue or an existing file or folder, got {name!r}")


def check_md5(path: Path, md5: str) -> None:
    """Refuse a file that has the name of a published file but different content."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise DataError(
            f"{path} must be the published file (MD5 {md5}), got MD5 {found}: fetch it again, "
            f"or give its path to use it as your own data"
        )


def _first_present(file: PublishedFile) -> Path | None:
    names = [file.name, *([file.unpacked] if file.unpacked else [])]
    candidates = (folder / name for folder in _folders_of(file) for name in names)
    return next((candidate for candidate in candidates if candidate.exists()), None)


def _folders_of(file: PublishedFile) -> list[Path]:
    """Return the folders that a published file may be in, in search order."""
    return [*(root / name for root in data_roots() for name in file.folders), *map(Path, file.elsewhere)]
