"""Files that a user names for results, such as `--out` and `--csv`: never one of a run, a study or a shipped model."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sae.core.errors import ConfigError
from sae.records.folder import LOCK
from sae.records.run import RunRecord
from sae.records.shipped import CARD, MANIFEST, RECEIPT, has_own_card, is_shipped
from sae.records.study import StudyRecord
from sae.records.writing import write_whole

GRAPHS = ".onnx"
"""Suffix of graphs; every graph in the folder of a model belongs to it."""


def write_target(
    path: Path, write: Callable[[Path], object], option: str = "--out", inputs: Sequence[Path] = ()
) -> None:
    """Write a file that the user has named, whole or not at all; refuse one that `check_target` refuses.

    Args:
        path: The file.
        write: Writes the content to the path that it is given.
        option: The option that names it.
        inputs: Files and folders that the command reads.
    """
    check_target(path, option, inputs)
    write_whole(path, write, patience=0.0)


def check_target(path: Path, option: str = "--out", inputs: Sequence[Path] = ()) -> None:
    """Refuse a file that a command reads, or one of a run, a study or a shipped model; also through a link.

    Args:
        path: The file to write.
        option: The option that names it.
        inputs: Files and folders that the command reads.
    """
    for given in inputs:
        if any(_is_within(form(path), form(given)) for form in (os.path.realpath, os.path.abspath)):
            raise ConfigError(f"{option} must not replace an input, got {path}: name a new file")
    owner = _owner(path.parent, path.name) or _owner(*os.path.split(os.path.realpath(path)))
    if owner is not None:
        raise ConfigError(f"{option} must not replace a file of {owner}, got {path}: name another file")


def _is_within(path: str, given: str) -> bool:
    """Return whether a path is another, or something that exists below it."""
    return path == given or (os.path.lexists(path) and Path(path).is_relative_to(given))


def _owner(place: str | Path, name: str) -> str | None:
    """Return what the file of this name in a folder belongs to; None if it is the user's."""
    folder = Path(place)
    if RunRecord(folder).is_made():
        owned, owner = name in (*RunRecord.FILES, *RunRecord.SHIFT.values(), LOCK), f"the run in {folder}"
    elif StudyRecord(folder).is_made():
        owned, owner = name in (*StudyRecord.FILES, LOCK) and name != StudyRecord.REPORT, f"the study in {folder}"
    elif is_shipped(folder):
        owned = name in (MANIFEST, RECEIPT) or name.endswith(GRAPHS) or (name == CARD and has_own_card(folder))
        owner = f"the model in {folder}"
    else:
        return None
    return owner if owned else None
