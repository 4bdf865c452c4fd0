"""Where data files are looked for and decoded sets are kept.

None of it is part of a run's config: a run is the same whatever folder its data were in. The
command line hands its `--data-root` on as an environment variable, which workers inherit.
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
        name: What the file is called on disk.
        url: Where it is published.
        md5: Checksum of the published file.
        unpacked: Folder that is as good as the file, if there is such a thing.
    """

    name: str
    url: str
    md5: str
    unpacked: str | None = None


def choose_data_root(folder: Path | None) -> None:
    """Look for data files in this folder first, in this process and those it starts."""
    if folder is not None:
        os.environ[DATA_ROOT_VARIABLE] = str(folder)


def cache_root() -> Path:
    """`SAE_CACHE`, or the cache folder of the user on this platform."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    import pooch

    return Path(pooch.os_cache("sae"))


def data_roots() -> list[Path]:
    """Folders of data files, the first to be asked first; fetched files go to the first."""
    given = os.environ.get(DATA_ROOT_VARIABLE)
    return [*([Path(given)] if given else []), cache_root() / "files"]


def is_present(file: PublishedFile) -> bool:
    """Whether a published file, or its unpacked folder, is in one of the roots."""
    return _first_present(file) is not None


def find_published(file: PublishedFile, dataset: str) -> Path:
    """Where a published file is, or what to do about it."""
    found = _first_present(file)
    if found is None:
        looked = " and ".join(str(root) for root in data_roots())
        raise DataError(
            f"{dataset} needs the file {file.name}, looked for in {looked}: "
            f"run `sae data fetch {dataset}`, or name its folder with --data-root"
        )
    return found


def find_own(name: str) -> Path:
    """Where the user's own file or folder is: as given, or else below a data root."""
    candidates = [Path(name).expanduser(), *(root / name for root in data_roots())]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise DataError(f"data must name a set of the catalogue or a file or folder that exists, got {name!r}")


def check_md5(path: Path, md5: str) -> None:
    """Refuse a file under a published name that is not the published file."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise DataError(
            f"{path} must be the published file (MD5 {md5}), however its MD5 is {found}: fetch it again, "
            f"or train on it as your own data by its path"
        )


def _first_present(file: PublishedFile) -> Path | None:
    names = [file.name, *([file.unpacked] if file.unpacked else [])]
    candidates = (root / name for root in data_roots() for name in names)
    return next((candidate for candidate in candidates if candidate.exists()), None)
