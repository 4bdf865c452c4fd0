"""Files that a user names for results, such as `--out` and `--csv`: never one of a run, a study or a shipped model."""

from collections.abc import Callable
from pathlib import Path

from sae.core.errors import ConfigError
from sae.records.run import RunRecord
from sae.records.shipped import MANIFEST, RECEIPT, is_shipped
from sae.records.study import StudyRecord
from sae.records.writing import write_whole

GRAPHS = ".onnx"
"""Suffix of graphs; every graph in the folder of a model belongs to it."""


def write_target(path: Path, write: Callable[[Path], object], option: str = "--out") -> None:
    """Write a file that the user has named, whole or not at all; refuse one of ours.

    Args:
        path: The file.
        write: Writes the content to the path that it is given.
        option: The option that names it.
    """
    check_target(path, option)
    write_whole(path, write)


def check_target(path: Path, option: str = "--out") -> None:
    """Refuse a file of a run, a study or a shipped model; only their own commands may write it."""
    owner = _owner(path.parent, path.name)
    if owner is not None:
        raise ConfigError(f"{option} must not replace a file of {owner}, got {path}: name another file")


def _owner(folder: Path, name: str) -> str | None:
    """Return the owner of the file of this name in a folder; None if it is the user's."""
    if RunRecord(folder).is_made():
        owned, owner = name in RunRecord.FILES or name in RunRecord.SHIFT.values(), f"the run in {folder}"
    elif StudyRecord(folder).is_made():
        owned, owner = name in StudyRecord.FILES and name != StudyRecord.REPORT, f"the study in {folder}"
    elif is_shipped(folder):
        owned, owner = name in (MANIFEST, RECEIPT) or name.endswith(GRAPHS), f"the model in {folder}"
    else:
        return None
    return owner if owned else None
