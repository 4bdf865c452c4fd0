"""Reading of small files, of which a large study has tens of thousands."""

import os

PIECE = 1 << 15
"""Bytes that are read at once; most files of a run are smaller."""
READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # Windows would translate the ends of lines


def read_file(path: str, most: int | None = None) -> bytes:
    """Return the content of a file; raise an OSError if it cannot be read.

    Python's `open` asks for the size and kind of a file and makes an object for it, which takes longer than reading it.

    Args:
        path: The file; a text, because paths are slow.
        most: Stop soon after this many bytes; None for no limit.
    """
    pieces, size = [], 0
    file = os.open(path, READING)
    try:
        while (most is None or size <= most) and (piece := os.read(file, PIECE)):
            pieces.append(piece)
            size += len(piece)
    finally:
        os.close(file)
    return b"".join(pieces)
