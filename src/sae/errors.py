"""What can go wrong, said once: every error that a user may meet, with its exit code.

A message says what must hold, what was given and what to do. The command line prints it
without a traceback; anything that is not a `SaeError` is our own fault and shows one.
"""


class SaeError(Exception):
    """Anything we foresaw. `exit_code` is what the command line returns for it."""

    exit_code = 1


class ConfigError(SaeError):
    """A setting, flag or name is wrong."""

    exit_code = 2


class DataError(SaeError):
    """The data cannot be used as given."""

    exit_code = 2


class ShapeError(SaeError):
    """A network cannot take inputs of this shape."""

    exit_code = 2


class RecordError(SaeError):
    """A run folder is missing, damaged, or holds something else."""

    exit_code = 2


class MissingExtraError(SaeError):
    """The command needs packages that are not installed."""

    exit_code = 2


class DivergedError(SaeError):
    """Training ran but produced numbers that cannot be used."""

    exit_code = 3


class CostError(SaeError):
    """An operation has no cost rule, so that a total would be a lie."""
