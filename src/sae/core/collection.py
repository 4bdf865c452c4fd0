"""Pauses of Python's garbage collector, and the import of large packages."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from sae.core.errors import ConfigError

LEAST_ADDRESSES = 768 << 20
"""Bytes of address space that torch needs. With less, its libraries end the process or hang, which nobody can catch."""


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
        _check_address_space(package)
        with paused_collection():
            import_module(package)
        gc.freeze()


def _check_address_space(package: str) -> None:
    """Refuse a limit on memory, as set by `ulimit -v`, that is too small to import a large package."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limits
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESSES:
        raise ConfigError(
            f"the limit on memory must be at least {LEAST_ADDRESSES >> 20} MB to load {package}, "
            f"got {limit >> 20} MB: raise it with ulimit -v {LEAST_ADDRESSES >> 10}, or remove it"
        )
