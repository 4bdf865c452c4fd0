"""Reading of files at once: only of regular ones, because a pipe may never end, and a device never does."""

import errno
import os
import stat

PIECE = 1 << 15
"""Bytes that are read at once; most files of a run are smaller."""
READING = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""Windows would translate the ends of lines; opening a pipe would wait for who writes into it."""
LARGEST = 2 << 30
"""Bytes of a file that is read at once: those of the largest ONNX graph."""


def read_file(path: str, most: int | None = None) -> bytes:
    """Return the content of a regular file; raise an OSError if it cannot be read.

    Python's `open` asks for the size and kind of a file and makes an object for it, which takes longer than reading it.

    Args:
        path: The file; a text, because paths are slow.
        most: Stop soon after this many bytes; by default, a larger file than any of ours is refused.
    """
    pieces, size = [], 0
    file = os.open(path, READING)
    try:
        found = os.fstat(file)
        check_regular(found, path)
        if most is None and found.st_size > LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        while (most is None or size <= most) and (piece := os.read(file, PIECE)):
            pieces.append(piece)
            size += len(piece)
    finally:
        os.close(file)
    return b"".join(pieces)


def check_regular(found: os.stat_result, path: str) -> None:
    """Raise an OSError for anything but a regular file."""
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, and must be a file", path)
