"""Memory that a training step frees is kept for the next one."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Tell glibc not to hand freed blocks back to the system; does nothing elsewhere.

    A step frees tensors of some megabytes and asks for them again at once. By default glibc
    returns them in between, and every page is faulted in anew: a quarter of the time of a
    small convolutional network's step.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
            mallopt(M_TRIM_THRESHOLD, 2**30)
