"""Targets of a table: classes, ordered or not, labels and values."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import ConfigError, DataError, did_you_mean
from sae.core.objectives import TaskName
from sae.core.wording import quoted
from sae.data.columns import Column, Reading, as_number
from sae.data.dataset import Features, Indices
from sae.data.profile import listed_names
from sae.data.table_files import column_names, read_columns

YES = {"1": 1, "yes": 1, "true": 1, "0": 0, "no": 0, "false": 0}
"""Spellings of a label that holds, and of one that does not."""
MOST_LABELS = 10
"""Up to this many different whole numbers are taken for classes where nobody says what they are."""


def infer_task(path: Path, targets: Sequence[str], missing: Sequence[str] = ()) -> tuple[TaskName, str]:
    """Return what to predict in a column, with the reason: texts and few whole numbers are classes.

    Several columns are labels if all hold 0 and 1, or yes and no.

    Args:
        path: The table.
        targets: The column or columns.
        missing: Texts that stand for a missing value.
    """
    for target in targets:
        check_column("data.target", target, column_names(path), path)
    columns = read_columns(path, Reading(only=targets, missing=missing, unmarked=targets))
    if len(targets) > 1:
        if all(_are_labels(column) for column in columns.values()):
            return "classification", f"the {len(targets)} targets hold labels that are 0 or 1"
        return "regression", f"the {len(targets)} targets are not all labels that are 0 or 1"
    (target,), (column,) = targets, columns.values()
    numbers = [as_number(str(value)) for value in column.values[~column.missing].tolist()]
    if None in numbers:
        return "classification", f"column {target!r} holds texts"
    present = np.array(numbers, np.float64)
    distinct = len(np.unique(present))
    if distinct <= MOST_LABELS and not (present % 1).any():
        return "classification", f"column {target!r} holds {distinct} different whole numbers"
    return "regression", f"column {target!r} holds numbers"


def check_column(key: str, name: str, columns: Sequence[str], path: Path) -> None:
    """Refuse the name of a column that a table does not have.

    Args:
        key: The setting or option that names it.
        name: The name.
        columns: All columns.
        path: The table, for the message.
    """
    if name not in columns:
        hint = did_you_mean(name, columns)
        listed = ", ".join(map(quoted, columns))
        raise DataError(f"{key} must be a column of {path}, one of {listed}; got {name!r}{hint}")


def check_task(config: DataConfig) -> None:
    """Refuse a task of one target for several, and an order of classes that nothing reads."""
    if isinstance(config.target, tuple) and config.task not in ("classification", "regression"):
        raise ConfigError(
            f"the task {config.task} is for one target, got {listed_names(config.target)}: use --task regression for "
            f"numbers, --task classification for labels that are 0 or 1, or one --target"
        )
    if config.order and config.task != "ordinal":
        raise ConfigError(f"data.order is for classes in an order, got task {config.task}: add --task ordinal")


def check_present(target: Column, path: Path) -> None:
    """Refuse a row without a value to predict, or to split by."""
    missing = np.flatnonzero(target.missing)
    if missing.size:
        raise DataError(
            f"every row must have a value to predict or to split by, but it is missing in row {missing[0] + 1}, "
            f"column {target.name!r} of {path}: remove such rows"
        )


def read_classes(target: Column, path: Path, known: tuple[str, ...] | None) -> tuple[Indices, tuple[str, ...]]:
    """Return the labels, (row,), and the names of the classes in their order: those known, or those found."""
    if target.is_numeric:
        broken = np.flatnonzero(target.numbers != np.round(target.numbers))
        if broken.size:
            raise DataError(
                f"classes must be texts or whole numbers, got {target.values[broken[0]]} in row {broken[0] + 1}, "
                f"column {target.name!r} of {path}: use --task regression?"
            )
    values, labels = np.unique(target.values, return_inverse=True)
    names = tuple(str(int(value)) if target.is_numeric else str(value) for value in values)
    if known is not None:
        strange = next((name for name in names if name not in known), None)
        if strange is not None:
            raise DataError(
                f"column {target.name!r} of {path} must hold the known classes {', '.join(known)}; got {strange!r}"
            )
        return np.array([known.index(name) for name in names])[labels], known
    if len(names) < 2:
        raise DataError(f"there must be at least 2 classes, got {list(names)} in column {target.name!r} of {path}")
    return labels.astype(np.int64), names


def ordered_classes(config: DataConfig, target: Column, path: Path) -> tuple[str, ...] | None:
    """Return the classes of an ordinal target in their order; None if nobody names them, or for other targets."""
    if config.task != "ordinal" or (target.is_numeric and not config.order):
        return None
    found = sorted({str(value) for value in target.values})
    if sorted(config.order) != found and not target.is_numeric:
        raise ConfigError(
            f"data.order must list the classes of column {target.name!r} of {path} from the lowest to the highest, "
            f"got {listed_names(config.order) or 'none'} for {listed_names(found)}: --order LOWEST,…,HIGHEST"
        )
    return config.order


def _spelling(value: object) -> str:
    """Return the text of a label: 1.0 is 1."""
    return f"{value:g}" if isinstance(value, float) else str(value).strip().lower()


def _are_labels(column: Column) -> bool:
    return {_spelling(value) for value in column.values[~column.missing].tolist()} <= YES.keys()


def label_column(target: Column, path: Path) -> Indices:
    """Return whether a label holds, (row,)."""
    for row, value in enumerate(target.values.tolist()):
        if _spelling(value) not in YES:
            raise DataError(
                f"each of several targets must be a label, 0 or 1, or yes or no, got {value!r} in row {row + 1}, "
                f"column {target.name!r} of {path}: use --task regression for numbers, or one --target"
            )
    return np.array([YES[_spelling(value)] for value in target.values.tolist()], np.int64)


def number_column(target: Column, path: Path) -> Features:
    """Return the values of a target, (row,); refuse texts."""
    if not target.is_numeric:
        wrong = next(index for index, value in enumerate(target.values) if value is None or as_number(value) is None)
        raise DataError(
            f"the target of a regression must be a number, got {target.values[wrong]!r} in row {wrong + 1}, "
            f"column {target.name!r} of {path}"
        )
    return target.numbers
