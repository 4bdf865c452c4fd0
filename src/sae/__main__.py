"""The entry point of the command `sae`, also as `python -m sae`."""

from sae.core.interrupts import end_at_once


def main() -> None:
    """Import the commands and carry one out."""
    end_at_once()
    from sae.cli import main as carry_out

    carry_out()


if __name__ == "__main__":
    main()
