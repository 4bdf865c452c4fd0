"""Trust in code that a user names, such as `my_nets.py:make_resnet`: it is imported only after the user says so.

Importing a file runs it, and a config or a run folder may come from somebody else. `--trust-code` says that the code
may run; a worker process inherits this from the process that starts it.
"""

import hashlib
from pathlib import Path

from sae.core.errors import ConfigError
from sae.core.reading import read_file

_is_trusted = False


def trust_code(*, is_trusted: bool = True) -> None:
    """Let this process import code that settings name, or forbid it again."""
    global _is_trusted
    _is_trusted = is_trusted


def is_code_trusted() -> bool:
    """Return whether this process may import code that settings name."""
    return _is_trusted


def is_source(name: object) -> bool:
    """Return whether a name is that of a function in a file.

    Example:
        >>> is_source("my_nets.py:make_resnet"), is_source("resnet")
        (True, False)
    """
    return isinstance(name, str) and ".py:" in name


def file_and_function(source: str) -> tuple[Path, str]:
    """Return the two parts of the name of a function in a file."""
    file, _, function = source.rpartition(":")
    return Path(file), function


def trusted_file(source: str, sha256: str | None = None) -> Path:
    """Return the file of a source, if its code may be imported and has the expected hash.

    Args:
        source: The name of a function in a file.
        sha256: The hash of the file that is expected; None if any will do.
    """
    file, function = file_and_function(source)
    if not function.isidentifier():
        raise ConfigError(f"a network of your own is FILE.py:FUNCTION, got {source}")
    if not _is_trusted:
        raise ConfigError(
            f"{file} is code that would run on this machine: if you trust it, add --trust-code (in Python, call "
            "sae.trust_code() first)"
        )
    if sha256 is not None and sha256_of_file(file) != sha256:
        raise ConfigError(
            f"{file} is not the file that these settings were made with (its SHA-256 differs from {sha256[:12]}…): "
            "bring that file back, or train again"
        )
    return file


def sha256_of_file(file: Path) -> str:
    """Return the hash of a file."""
    try:
        return hashlib.sha256(read_file(str(file))).hexdigest()
    except OSError as error:
        raise ConfigError(f"the file of a network of your own must be readable, got {file}: {error.strerror}") from None
