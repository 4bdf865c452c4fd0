"""The one place that opens files for writing: whole or absent, and never in place of a device, a pipe or a link.

A file is written under a temporary name, synced and renamed. A symbolic link is followed: its target changes, and the
link stays. A pipe, a terminal or anything else that is not a regular file gets the content as a stream.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from sae.core.errors import RecordError

STANDARD_OUTPUT = 1
LONGEST_NAME = 240
"""Bytes of a name above which its temporary name is a hash; file systems allow 255."""


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that it is whole or absent; write to a pipe or device as a stream.

    Args:
        path: The file.
        write: Writes the content to the path that it is given.
    """
    try:
        if is_stream(path):
            _write_stream(path, write)
        else:
            _write_file(Path(os.path.realpath(path)), write)
    except OSError as error:
        raise RecordError(
            f"{path} could not be written ({error.strerror or error}): the file that was there before is unchanged; "
            f"make room or choose another folder, then run the same command again"
        ) from error


def is_stream(path: Path) -> bool:
    """Return whether to write a path as a stream: a pipe, a device, or the target of standard output."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) or is_standard_output(path)


def is_standard_output(path: Path) -> bool:
    """Return whether a path is the standard output of this process, such as `/dev/stdout`."""
    with suppress(OSError):  # closed, or no such path
        return os.path.samestat(path.stat(), os.fstat(STANDARD_OUTPUT))
    return False


def _write_file(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f".{_short(path.name)}.tmp")
    try:
        write(temporary)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_stream(path: Path, write: Callable[[Path], object]) -> None:
    """Write the content to a temporary file first, because some formats need to seek."""
    with TemporaryDirectory(prefix="sae-") as folder:
        content = Path(folder) / f"content{path.suffix}"
        write(content)
        # If standard output goes to a file, opening that file anew would truncate and overwrite it.
        target = os.dup(STANDARD_OUTPUT) if is_standard_output(path) else os.open(path, os.O_WRONLY)
        with content.open("rb") as source, os.fdopen(target, "wb") as stream:
            shutil.copyfileobj(source, stream)


def _short(name: str) -> str:
    return name if len(os.fsencode(name)) <= LONGEST_NAME else hashlib.sha256(os.fsencode(name)).hexdigest()
