"""CSV and Parquet tables, and their columns as features.

Medians and categories are learned from the training rows alone.
"""

import csv
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import ConfigError, DataError, DataWarning, MissingExtraError, did_you_mean
from sae.core.task import Classification, Task
from sae.data.dataset import (
    Array,
    Cells,
    ColumnEncoding,
    Dataset,
    Features,
    Indices,
    Known,
    Mask,
    Normalisation,
    is_resolved,
    signal_normalisation,
    split_indices,
    split_up,
    standardisation,
    standardised_regression,
)
from sae.data.locations import find_own

if TYPE_CHECKING:
    from pyarrow import ChunkedArray

MOST_CATEGORIES = 256
"""Most different texts in a column; a column with more holds names or identifiers, which teach a network nothing."""
MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Spellings of a missing value in a CSV, in lower case; any case is accepted."""


@dataclass(frozen=True)
class Column:
    """One column: numbers in float64 with NaN for missing values, or texts as objects with None."""

    name: str
    values: Cells

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers."""
        return self.values.dtype != np.dtype(object)

    @property
    def missing(self) -> Mask:
        """Whether each row has no value, (row,)."""
        if self.is_numeric:
            return np.isnan(self.values)
        return np.array([value is None for value in self.values], bool)


def read_columns(path: Path, texts: Collection[str] = ()) -> dict[str, Column]:
    """Read the columns of a file by name, in the order of the file.

    Args:
        path: A CSV or Parquet file.
        texts: Columns to read as texts even if they look like numbers.
    """
    columns = _read_parquet(path, texts) if path.suffix.lower() == ".parquet" else _read_csv(path, texts)
    if not columns or not len(next(iter(columns.values())).values):
        raise DataError(f"{path} must hold rows, got none")
    for column in columns.values():
        _check_finite(column, path)
    return columns


def _read_csv(path: Path, texts: Collection[str]) -> dict[str, Column]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file, strict=True) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} must be a CSV file in UTF-8, but cannot be read: {error}") from None
    names = [name.strip() for name in header]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise DataError(f"columns must have different names, got {twice!r} twice in {path}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise DataError(f"every row must have {len(names)} values, got {len(row)} in row {number} of {path}")
    by_name = zip(names, zip(*rows, strict=True), strict=False)
    return {name: _column(name, values, is_text=name in texts) for name, values in by_name}


def _column(name: str, cells: tuple[str, ...], is_text: bool) -> Column:
    values = [None if cell.strip().lower() in MISSING_TEXTS else cell.strip() for cell in cells]
    if is_text:
        return Column(name, np.array(values, object))
    try:
        return Column(name, np.array([np.nan if value is None else float(value) for value in values]))
    except ValueError:
        return Column(name, np.array(values, object))


def _read_parquet(path: Path, texts: Collection[str]) -> dict[str, Column]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"reading {path} needs pyarrow, which is not installed: pip install 'saensemble[tables]'"
        ) from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} must be a Parquet file, but cannot be read: {error}") from None
    return {name: _arrow_column(name, table.column(name), path, name in texts) for name in table.column_names}


def _arrow_column(name: str, values: "ChunkedArray", path: Path, is_text: bool) -> Column:
    from pyarrow import types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    if not is_text and (types.is_integer(kind) or types.is_floating(kind)):
        return Column(name, np.array([np.nan if value is None else value for value in values.to_pylist()], np.float64))
    if is_text or types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind):
        return Column(name, np.array([None if value is None else str(value) for value in values.to_pylist()], object))
    raise DataError(f"columns must hold numbers, texts or booleans, got {kind} in column {name!r} of {path}: remove it")


def _check_finite(column: Column, path: Path) -> None:
    if column.is_numeric:
        wrong = np.flatnonzero(np.isinf(column.values))
        if wrong.size:
            raise DataError(
                f"numbers must be finite, got {column.values[wrong[0]]} in row {wrong[0] + 1}, "
                f"column {column.name!r} of {path}"
            )


def read_own(config: DataConfig, _seed: int, known: Known | None = None) -> Dataset:
    """Read the user's table: numbers unchanged, texts one-hot; 60 % train, 20 % val, 20 % test.

    Args:
        config: The path, the task and the target.
        known: Encodings and classes that an earlier reading learnt; by default they are learnt here.
    """
    path = find_own(config.name)
    known = known or Known()
    columns = read_columns(path, texts_of(known.columns or ()))
    targets, task, class_names, parts = split_targets(config, columns, path, known)
    encodings = known.columns or tuple(learn_encoding(column, parts[0], path) for column in columns.values())
    check_columns(columns, encodings, path)
    inputs = encoded(columns, encodings)
    normalisation = standardisation(inputs, parts[0])
    if known.columns is None:
        _warn_of_columns(inputs, parts[0], normalisation, encodings, path)
    return split_up(config.name, inputs, targets, task, normalisation, parts, class_names, encodings)


def read_own_signals(config: DataConfig, _seed: int, known: Known | None = None) -> Dataset:
    """Read the user's table as signals of one channel: a row is a signal, a column a time step, in file order.

    Args:
        config: The path, the task and the target.
        known: Columns and classes of an earlier reading; by default all columns but the target.
    """
    path = find_own(config.name)
    known = known or Known()
    columns = read_columns(path)
    targets, task, class_names, parts = split_targets(config, columns, path, known)
    encodings = known.columns or tuple(_time_step(column, parts[0], path) for column in columns.values())
    check_columns(columns, encodings, path)
    signals = encoded(columns, encodings)[:, None]  # (row, 1, length)
    normalisation = signal_normalisation(signals[parts[0]])
    return split_up(config.name, signals, targets, task, normalisation, parts, class_names, encodings)


def split_targets(
    config: DataConfig, columns: dict[str, Column], path: Path, known: Known
) -> tuple[Array, Task, tuple[str, ...] | None, tuple[Indices, Indices, Indices]]:
    """Take the target out of the columns; return its values, the task, the names of classes and the three splits."""
    target = columns.pop(_target_name(config, columns, path))
    _check_present(target, path)
    labels, class_names = _classes(target, path, known.class_names) if config.task == "classification" else (None, None)
    targets = labels if labels is not None else _numbers(target, path)
    parts = split_indices(len(targets), config.split_seed, labels)
    task: Task = (
        Classification(len(class_names))
        if class_names is not None
        else standardised_regression(targets[parts[0]], f"column {target.name!r} of {path}")
    )
    if not columns:
        raise DataError(f"{path} must hold columns besides {target.name!r} to predict it from, got none")
    return targets, task, class_names, parts


def _time_step(column: Column, training: Indices, path: Path) -> ColumnEncoding:
    """Return the encoding of a time step; refuse a column that is not a number in every row."""
    if not column.is_numeric:
        raise DataError(
            f"every column but the target must hold numbers, one time step each, got texts in column "
            f"{column.name!r} of {path}: remove it"
        )
    missing = np.flatnonzero(column.missing)
    if missing.size:
        raise DataError(
            f"signals must have no missing values, got one in row {missing[0] + 1}, column {column.name!r} of {path}: "
            f"remove or impute such rows"
        )
    return learn_encoding(column, training, path)


def texts_of(encodings: Sequence[ColumnEncoding]) -> list[str]:
    """Return the names of the columns that hold texts, which are read as such even if they look like numbers."""
    return [encoding.name for encoding in encodings if not encoding.is_numeric]


def check_columns(columns: dict[str, Column], encodings: Sequence[ColumnEncoding], path: Path) -> None:
    """Refuse a table without a column that has an encoding, or with texts in a column of numbers."""
    for encoding in encodings:
        if encoding.name not in columns:
            raise DataError(f"{path} must hold the column {encoding.name!r}, got only {', '.join(columns)}")
        if encoding.is_numeric and not columns[encoding.name].is_numeric:
            wrong = next(
                value for value in columns[encoding.name].values if value is not None and not _is_number(value)
            )
            raise DataError(f"column {encoding.name!r} of {path} must hold numbers, got {wrong!r}")


def encoded(columns: dict[str, Column], encodings: Sequence[ColumnEncoding]) -> Features:
    """Return the features of all columns that have an encoding, (row, feature) in float64."""
    num_rows = len(next(iter(columns.values())).values)
    inputs = np.empty((num_rows, sum(encoding.num_features for encoding in encodings)))
    chosen = [(columns[encoding.name], encoding) for encoding in encodings]
    features = (feature for column, way in chosen for feature in way.features(column.values, column.missing))
    for index, feature in enumerate(features):
        inputs[:, index] = feature
    return inputs


def _warn_of_columns(
    inputs: Features, training: Indices, normalisation: Normalisation, encodings: Sequence[ColumnEncoding], path: Path
) -> None:
    """Warn of columns that are constant in the training rows, or whose spread float64 cannot hold."""
    start = 0
    constant, lost = [], []
    for encoding in encodings:
        features = range(start, start + encoding.num_features)
        start = features.stop
        if not any(np.ptp(inputs[training, feature]) for feature in features):
            constant.append(encoding.name)
        elif not all(is_resolved(normalisation.mean[i], normalisation.std[i], np.float64) for i in features):
            lost.append(encoding.name)
    if constant:
        _warn(f"{path} has columns with a single value in the training rows, which teach nothing: {_listed(constant)}")
    if lost:
        _warn(
            f"{path} has columns whose numbers are so large that their spread is lost in rounding: {_listed(lost)}; "
            f"subtract a constant from them first"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=3)


def learn_encoding(column: Column, training: Indices, path: Path) -> ColumnEncoding:
    """Return the encoding of a column.

    Numbers become one feature, with the training median for missing values. Texts become one
    feature for each text of the training rows. If values are missing, a last feature marks them.

    Args:
        column: The column with all rows.
        training: Indices of the training rows.
        path: Path of the table, for messages.
    """
    missing = column.missing
    present = column.values[training][~missing[training]]
    if not len(present):
        raise DataError(
            f"a column must have values in the training rows, got none in column {column.name!r} of {path}: remove it"
        )
    marks_missing = bool(missing.any())
    if column.is_numeric:
        return ColumnEncoding(column.name, median=float(np.median(present)), marks_missing=marks_missing)
    categories = tuple(sorted(set(present)))
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"a text column must have at most {MOST_CATEGORIES} different values, got {len(categories)} "
            f"in column {column.name!r} of {path}: remove it"
        )
    return ColumnEncoding(column.name, categories=categories, marks_missing=marks_missing)


def _target_name(config: DataConfig, columns: dict[str, Column], path: Path) -> str:
    known = ", ".join(columns)
    if config.target is None:
        raise ConfigError(f"data.target must name the column of {path} to predict: --target COLUMN, one of {known}")
    if config.target not in columns:
        hint = did_you_mean(config.target, columns)
        raise DataError(f"data.target must be a column of {path}, one of {known}; got {config.target!r}{hint}")
    return config.target


def _check_present(target: Column, path: Path) -> None:
    missing = np.flatnonzero(target.missing)
    if missing.size:
        raise DataError(
            f"every row must have a target, but it is missing in row {missing[0] + 1}, "
            f"column {target.name!r} of {path}: remove such rows"
        )


def _classes(target: Column, path: Path, known: tuple[str, ...] | None) -> tuple[Indices, tuple[str, ...]]:
    """Return the labels, (row,), and the names of the classes in their order: those known, or those found."""
    if target.is_numeric:
        broken = np.flatnonzero(target.values != np.round(target.values))
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


def _numbers(target: Column, path: Path) -> Features:
    if not target.is_numeric:
        wrong = next(index for index, value in enumerate(target.values) if not _is_number(value))
        raise DataError(
            f"the target of a regression must be a number, got {target.values[wrong]!r} in row {wrong + 1}, "
            f"column {target.name!r} of {path}"
        )
    return target.values.astype(np.float64, copy=False)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
