"""Pauses of Python's garbage collector."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def paused_collection() -> Iterator[None]:
    """Switch the search for cyclic garbage off, as a context or a decorator.

    Reading a large study makes millions of small objects and keeps them all. Scanning them for garbage again and again
    would take as long as reading them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_for_good(package: str) -> None:
    """Import a large package into a process of our own, and never search what that made for garbage.

    Importing torch makes 200,000 objects that live as long as the process. Searching them again and again takes a
    quarter of the time of the import. Nothing happens if the package has been imported before.
    """
    if package not in sys.modules:
        with paused_collection():
            import_module(package)
        gc.freeze()
