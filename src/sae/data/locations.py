"""Folders of data files and of the cache, and the files in them.

None of this is part of a run's config: the folder of its data does not change a run. The command
line passes `--data-root` on in an environment variable, which worker processes inherit.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from sae.core.errors import DataError

DATA_ROOT_VARIABLE = "SAE_DATA_ROOT"
CACHE_VARIABLE = "SAE_CACHE"


@dataclass(frozen=True)
class PublishedFile:
    """A file that can be downloaded.

    Attributes:
        name: File name on disk.
        url: Address of the published file.
        md5: Checksum of the published file.
        unpacked: Name of the unpacked folder, which may take the place of the file.
    """

    name: str
    url: str
    md5: str
    unpacked: str | None = None


def choose_data_root(folder: Path | None) -> None:
    """Search this folder for data files first, in this process and in those it starts."""
    if folder is not None:
        os.environ[DATA_ROOT_VARIABLE] = str(folder)


def cache_root() -> Path:
    """Return `SAE_CACHE`, or the user's cache folder on this platform."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    import pooch

    return Path(pooch.os_cache("sae"))


def data_roots() -> list[Path]:
    """Return the folders of data files in search order; downloads go to the first."""
    given = os.environ.get(DATA_ROOT_VARIABLE)
    return [*([Path(given)] if given else []), cache_root() / "files"]


def is_present(file: PublishedFile) -> bool:
    """Return whether a published file, or its unpacked folder, is in one of the roots."""
    return _first_present(file) is not None


def find_published(file: PublishedFile, dataset: str) -> Path:
    """Return the path of a published file; if it is missing, the error says how to get it."""
    found = _first_present(file)
    if found is None:
        searched = " or ".join(str(root) for root in data_roots())
        raise DataError(
            f"{dataset} needs the file {file.name}, which is not in {searched}: "
            f"run `sae data fetch {dataset}`, or give its folder with --data-root"
        )
    return found


def find_own(name: str) -> Path:
    """Return the path of the user's own file or folder: as given, or in a data root."""
    candidates = [Path(name).expanduser(), *(root / name for root in data_roots())]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise DataError(f"data must be a name in the catalogue or an existing file or folder, got {name!r}")


def check_md5(path: Path, md5: str) -> None:
    """Refuse a file that has the name of a published file but another content."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise DataError(
            f"{path} must be the published file (MD5 {md5}), got MD5 {found}: fetch it again, "
            f"or give its path to use it as your own data"
        )


def _first_present(file: PublishedFile) -> Path | None:
    names = [file.name, *([file.unpacked] if file.unpacked else [])]
    candidates = (root / name for root in data_roots() for name in names)
    return next((candidate for candidate in candidates if candidate.exists()), None)
