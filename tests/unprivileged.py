"""Work done as a user without privileges: root reads and writes everything, so that a test of rights could not fail."""

import ctypes
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534
CAPABILITY_VERSION = 0x20080522


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Give a temporary folder that every user can enter; those of pytest are for their owner alone."""
    folder = Path(tempfile.mkdtemp(prefix="sae-shared-"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_nobody(work: Callable[[], str]) -> str:
    """Return the text that a function returns, or the error it raises, in a process without privileges."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            drop_privileges()
            found = work()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    found = json.loads(content)
    assert isinstance(found, str)
    return found


def drop_overrides() -> None:
    """Give up all of root's capabilities, among them to read and write everything.

    Unlike `drop_privileges`, this keeps the right to import modules from a Python below root's home.
    """
    if os.geteuid() == 0:
        header, nothing = struct.pack("Ii", CAPABILITY_VERSION, 0), bytes(24)
        if ctypes.CDLL(None, use_errno=True).capset(header, nothing):
            raise OSError(ctypes.get_errno(), "capset")


def drop_privileges() -> None:
    """Become nobody, if this process is root's."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
