"""The entry point of the command `sae`, also as `python -m sae`."""

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Import the commands and run one.

    The import takes some tenths of a second and changes nothing: Ctrl-C during it ends the process at once, instead of
    printing a traceback from the middle of an import.
    """
    before = signal.signal(signal.SIGINT, _end)
    from sae.cli import main as run_command

    signal.signal(signal.SIGINT, before)
    run_command()


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
