"""The entry point of the command `sae`, also as `python -m sae`."""

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Import the commands and carry one out.

    Importing them takes some tenths of a second, in which nothing is at stake: Ctrl-C then ends the process at once,
    instead of a traceback out of the middle of somebody's import.
    """
    before = signal.signal(signal.SIGINT, _end)
    from sae.cli import main as carry_out

    signal.signal(signal.SIGINT, before)
    carry_out()


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
