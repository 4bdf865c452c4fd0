"""The one place that opens files for writing: whole or absent, and never in place of a device, a pipe or a link.

A file is written under a temporary name that nothing else has, synced and renamed. The temporary file is locked: it
says that a process writes the target, which a second one is told; without a lock it was left by a killed process, and
is deleted. A symbolic link is followed: its target changes, and the link stays. A pipe, a terminal or anything else
that is not a regular file gets the content as a stream.
"""

import hashlib
import os
import random
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from sae.core.errors import BusyError, RecordError

STANDARD_OUTPUT = 1
LONGEST_NAME = 225
"""Bytes of a name above which its temporary name is a hash; file systems allow 255."""
PATIENCE = 5.0
"""Seconds to wait for another process that writes the same file, if waiting makes sense."""
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
KNOWN_FILE = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_whole(path: Path, write: Callable[[Path], object], patience: float = PATIENCE) -> None:
    """Write a file so that it is whole or absent; write to a pipe or device as a stream.

    Args:
        path: The file.
        write: Writes the content to the path that it is given.
        patience: Seconds to wait for another process that writes the same file, before this is refused.
    """
    try:
        if is_stream(path):
            _write_stream(path, write)
        else:
            _write_file(Path(os.path.realpath(path)), write, patience)
    except OSError as error:
        folder = Path(os.path.realpath(path)).parent
        if not folder.exists():
            raise RecordError(f"{path} could not be written: create its folder {folder} first") from error
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


def _write_file(path: Path, write: Callable[[Path], object], patience: float) -> None:
    with writing_alone(path, patience) as temporary:
        write(temporary)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)


@contextmanager
def writing_alone(path: Path, patience: float = 0.0, called: Path | None = None) -> Iterator[Path]:
    """Give an empty temporary file beside a target that no other process writes meanwhile.

    A shared lock on it says that a process is about to begin, an exclusive one that it has begun. Of processes that
    are about to begin at the same time, all step back for a random time.

    Args:
        path: The target.
        patience: Seconds to wait for a process that has begun.
        called: What to call the target in an error.
    """
    begun = time.monotonic()
    while True:
        temporary, lock = _new_temporary(path)
        try:
            others = [_use_of(other) for other in temporaries(path) if other != temporary]
            if not any(others) and _is_ours(lock, exclusive=True):
                yield temporary
                return
        finally:
            temporary.unlink(missing_ok=True)
            os.close(lock)
        if time.monotonic() - begun > (patience if "begun" in others else PATIENCE):
            raise BusyError(f"{called or path} is being written by another process: wait for it, or name another file")
        time.sleep(random.uniform(0.01, 0.1))


def temporaries(path: Path) -> list[Path]:
    """Return the temporary files of a target, also those that killed processes have left."""
    name = re.compile(re.escape(f".{_short(path.name)}.sae-") + r"[0-9a-f]{16}\.tmp")
    with suppress(OSError), os.scandir(path.parent) as entries:  # a folder may be writable but not readable
        return [path.with_name(entry.name) for entry in entries if name.fullmatch(entry.name)]
    return []


def _new_temporary(path: Path) -> tuple[Path, int]:
    """Create a temporary file, and return it with the descriptor that keeps it locked."""
    while True:
        temporary = path.with_name(f".{_short(path.name)}.sae-{os.urandom(8).hex()}.tmp")
        lock = os.open(temporary, NEW_FILE, 0o666)
        if _is_ours(lock, exclusive=False):
            return temporary, lock
        os.close(lock)


def _is_ours(file: int, *, exclusive: bool) -> bool:
    """Lock a temporary file of this process; return False if another took it for one that was left, and deleted it."""
    return _lock(file, exclusive=exclusive) is not False and os.fstat(file).st_nlink > 0


def _use_of(temporary: Path) -> Literal["about to begin", "begun"] | None:
    """Return how far the process of a temporary file is; if it was killed, delete the file and return None."""
    try:
        file = os.open(temporary, KNOWN_FILE)
    except OSError:  # it was just renamed, or is another user's or no file
        return None
    try:
        is_left = _lock(file, exclusive=True) if stat.S_ISREG(os.fstat(file).st_mode) else None
        if is_left:
            temporary.unlink(missing_ok=True)
        if is_left is not False:
            return None
        return "about to begin" if _lock(file, exclusive=False) else "begun"
    finally:
        os.close(file)


def _lock(file: int, *, exclusive: bool) -> bool | None:
    """Lock an open file until it is closed or this process ends.

    Returns:
        Whether it is locked now: False if another process keeps it locked, None if the system cannot tell.
    """
    try:
        import fcntl

        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, or a file system without locks
        return None
    return True


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
