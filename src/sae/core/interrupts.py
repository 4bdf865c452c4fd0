"""Ctrl-C before a command begins: the process ends at once, without a traceback out of the middle of somebody's import.

Importing the commands and parsing their arguments takes some tenths of a second, in which nothing is at stake.
"""

import os
import signal
from types import FrameType

INTERRUPTED = 130


def end_at_once() -> None:
    """Let Ctrl-C end the process, unless whoever started it has it ignored, as shells do in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, so that a command can end in order."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
