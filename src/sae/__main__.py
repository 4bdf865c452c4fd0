"""The entry point of the command `sae`, also as `python -m sae`."""

import gc

from sae.core.interrupts import end_at_once


def main() -> None:
    """Import the commands and carry one out."""
    end_at_once()
    from sae.cli import main as carry_out

    try:
        carry_out()
    finally:
        gc.freeze()  # the process ends: Python need not search what is left for garbage, half a second after a report


if __name__ == "__main__":
    main()
