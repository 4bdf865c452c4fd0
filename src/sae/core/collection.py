"""Pauses of Python's garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Look for no cyclic garbage meanwhile, as a context or a decorator.

    Reading a large study makes millions of small objects and keeps them all. To look through them again and again for
    garbage would take as long as to read them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
