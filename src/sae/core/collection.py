"""Pauses of Python's garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
