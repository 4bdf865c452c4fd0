"""`python -m sae`, the same as the command `sae`."""

from sae.cli import main

main()
