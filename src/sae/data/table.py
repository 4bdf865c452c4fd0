"""A table as features: what is learnt of the columns is learnt from the training rows alone."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import ConfigError, DataError
from sae.core.task import Classification, Task
from sae.data.column_encoding import ColumnEncoding
from sae.data.dataset import Array, Dataset, standardisation, standardised_regression
from sae.data.locations import find_own
from sae.data.splitting import split_indices, split_up
from sae.data.table_file import Column, read_columns

MOST_CATEGORIES = 256
"""Different texts in a column; a column of more is a name or a number of a row, from which nothing is learnt."""


def read_own(config: DataConfig, _seed: int) -> Dataset:
    """The user's table: numbers as they are, texts one-hot; 60 % train, 20 % val, 20 % test."""
    path = find_own(config.name)
    columns = read_columns(path)
    target = columns.pop(_target_name(config, columns, path))
    _check_present(target, path)
    labels, class_names = _classes(target, path) if config.task == "classification" else (None, None)
    targets = labels if labels is not None else _numbers(target, path)
    parts = split_indices(len(targets), config.split_seed, labels)
    task: Task = (
        Classification(len(class_names))
        if class_names is not None
        else standardised_regression(targets[parts[0]], f"column {target.name!r} of {path}")
    )
    if not columns:
        raise DataError(f"{path} must hold columns beside {target.name!r} to predict it from, got none")
    encodings = tuple(learn_encoding(column, parts[0], path) for column in columns.values())
    inputs = encoded(columns, encodings)
    normalisation = standardisation(inputs[parts[0]])
    return split_up(config.name, inputs, targets, task, normalisation, parts, class_names, encodings)


def encoded(columns: dict[str, Column], encodings: Sequence[ColumnEncoding]) -> Array:
    """The features of all columns that have an encoding, (row, feature) in float32."""
    chosen = [(columns[encoding.name], encoding) for encoding in encodings]
    features = [feature for column, way in chosen for feature in way.features(column.values, column.missing)]
    return np.stack(features, axis=1).astype(np.float32)


def learn_encoding(column: Column, training: Array, path: Path) -> ColumnEncoding:
    """How a column becomes features.

    Numbers: one feature, with the training median where missing. Texts: one for each text of
    the training rows; another text is none of them. Where values are missing, a last feature
    says so.

    Args:
        column: All rows.
        training: Indices of the training rows.
        path: For messages.
    """
    missing = column.missing
    present = column.values[training][~missing[training]]
    if not len(present):
        raise DataError(
            f"a column must have values in the training rows, got none in column {column.name!r} of {path}: drop it"
        )
    marks_missing = bool(missing.any())
    if column.is_numeric:
        return ColumnEncoding(column.name, median=float(np.median(present)), marks_missing=marks_missing)
    categories = tuple(sorted(set(present)))
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"a column of texts must have at most {MOST_CATEGORIES} different ones, got {len(categories)} "
            f"in column {column.name!r} of {path}: drop it"
        )
    return ColumnEncoding(column.name, categories=categories, marks_missing=marks_missing)


def _target_name(config: DataConfig, columns: dict[str, Column], path: Path) -> str:
    known = ", ".join(columns)
    if config.target is None:
        raise ConfigError(f"data.target must name the column of {path} to predict: --target COLUMN, one of {known}")
    if config.target not in columns:
        close = difflib.get_close_matches(config.target, columns, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        raise DataError(f"data.target must be a column of {path}, one of {known}; got {config.target!r}{hint}")
    return config.target


def _check_present(target: Column, path: Path) -> None:
    missing = np.flatnonzero(target.missing)
    if missing.size:
        raise DataError(
            f"the target must be there in every row, however it is missing in row {missing[0] + 1}, "
            f"column {target.name!r} of {path}: remove such rows"
        )


def _classes(target: Column, path: Path) -> tuple[Array, tuple[str, ...]]:
    """Labels (row,), and the names of the classes in their order."""
    if target.is_numeric:
        broken = np.flatnonzero(target.values != np.round(target.values))
        if broken.size:
            raise DataError(
                f"classes must be texts or whole numbers, got {target.values[broken[0]]} in row {broken[0] + 1}, "
                f"column {target.name!r} of {path}: use --task regression?"
            )
    names, labels = np.unique(target.values, return_inverse=True)
    if len(names) < 2:
        raise DataError(
            f"there must be at least 2 classes to tell apart, got {names.tolist()} in column {target.name!r} of {path}"
        )
    return labels.astype(np.int64), tuple(str(int(name)) if target.is_numeric else str(name) for name in names)


def _numbers(target: Column, path: Path) -> Array:
    if not target.is_numeric:
        wrong = next(index for index, value in enumerate(target.values) if not _is_number(value))
        raise DataError(
            f"the target of a regression must be a number, got {target.values[wrong]!r} in row {wrong + 1}, "
            f"column {target.name!r} of {path}"
        )
    return target.values.astype(np.float32)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
