"""The identity of files by their content: a hash that decides which decoded set belongs to them.

Content decides, not name, size or time: a file that was changed and given its old size and time back is another one.
To hash gigabytes once instead of at every start, a hash is remembered together with what the system says about the
files, the time of their last change of any kind among it, which nobody can set back.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sae.core.errors import DataError
from sae.data.locations import cache_root

SETTLED_SECONDS = 2.0
"""Age of a change from which on the next change surely has another time."""


def content_identity(folder: Path, names: Sequence[str]) -> str:
    """Return a hash of the names and contents of files.

    Args:
        folder: What the names are relative to; it is no part of the hash, so that files can be moved.
        names: Relative paths, in an order that always is the same.
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
