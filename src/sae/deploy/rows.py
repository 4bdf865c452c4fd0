"""Rows of tables to predict: from files, from dictionaries and from data frames. No torch."""

import numbers
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError, DataWarning
from sae.core.task import Shape
from sae.core.wording import count
from sae.data.columns import MARK, Column, as_days, without_marks
from sae.data.dataset import ColumnEncoding, Features
from sae.data.frames import as_text, is_missing
from sae.data.table import check_columns, encoded, reading_of
from sae.data.table_files import read_columns
from sae.data.targets import label_column, number_column
from sae.deploy.manifest import Manifest
from sae.deploy.session import Integers

Flags = NDArray[np.bool_]
Row = Mapping[str, object]
"""Values by the name of their column; a value that is None or absent is missing."""


@runtime_checkable
class Frame(Protocol):
    """The part of pandas' data frame interface that is used; pandas need not be installed."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns."""

    def to_dict(self, orient: str) -> list[Row]:
        """Return the rows, with `orient="records"`."""


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, encoded for a model.

    Attributes:
        samples: (row, feature), or (row, 1, length) if a row is a signal.
        imputed: Rows with a missing value in a column that had none in training, (row,).
        unseen: Rows with a category that training did not see, (row,).
        columns: The columns themselves.
    """

    samples: Features
    imputed: Flags
    unseen: Flags
    columns: Mapping[str, Column]


def is_rows(x: object) -> TypeGuard[Sequence[Row] | Frame]:
    """Return whether samples are given as rows of a table, with the names of their columns."""
    if isinstance(x, Frame):
        return True
    return isinstance(x, Sequence) and not isinstance(x, str) and len(x) > 0 and isinstance(x[0], Mapping)


def encode_rows(rows: Sequence[Row] | Frame, manifest: Manifest) -> TableRows:
    """Encode rows like those of the training table."""
    records = rows.to_dict(orient="records") if isinstance(rows, Frame) else rows
    encodings = encodings_of(manifest)
    known = {name for record in records for name in record}
    columns = {
        encoding.name: _column(encoding, [record.get(encoding.name) for record in records])
        for encoding in encodings
        if encoding.name in known
    }
    return encode_columns(columns, encodings, "the rows", manifest.input.shape)


def read_rows(path: Path, manifest: Manifest) -> TableRows:
    """Read the rows of a file, with the column of the truth if it is there.

    Columns are found by name, in any order. Columns that the model does not know are ignored.
    """
    encodings, targets = encodings_of(manifest), manifest.target.columns
    classes = targets if manifest.task == "classification" else ()
    wanted = [*(encoding.name for encoding in encodings), *targets]
    reading = reading_of(encodings, classes, wanted)
    if not classes:
        reading = replace(reading, marks={**reading.marks, **dict.fromkeys(targets, ())})  # also if stored as texts
    columns = read_columns(path, reading)
    return encode_columns(columns, encodings, str(path), manifest.input.shape)


def encodings_of(manifest: Manifest) -> list[ColumnEncoding]:
    """Return the encodings of a model's columns."""
    if manifest.input.columns is None:
        raise DataError(
            "rows with names are for models of tables whose columns are known, but this one takes "
            f"{manifest.input.dtype} numbers, (batch, {', '.join(map(str, manifest.input.shape))}): "
            "give it images, or in Python an array"
        )
    return [ColumnEncoding(**dict(part)) for part in manifest.input.columns]


def true_targets(columns: Mapping[str, Column], manifest: Manifest, path: Path) -> Integers | Features | None:
    """Return labels or values, (row[, target]), if every row has them."""
    names = manifest.target.columns
    if not names or any(name not in columns or columns[name].missing.any() for name in names):
        return None
    if manifest.target.names is None:
        return _true_target(columns[names[0]], manifest, path)
    if manifest.task == "classification":
        return np.stack([label_column(columns[name], path) for name in names], axis=1)
    return np.stack([number_column(columns[name], path) for name in names], axis=1)


def _true_target(truth: Column, manifest: Manifest, path: Path) -> Integers | Features:
    if manifest.task == "regression":
        if not truth.is_numeric:
            raise DataError(f"the target of a regression must be a number, got texts in {truth.name!r} of {path}")
        return truth.numbers
    known = set(manifest.target.class_names or ())
    names = [text if text in known else _class_name(text) for text in truth.values]
    return labels_of(names, manifest, f"column {truth.name!r} of {path}")


def labels_of(names: Sequence[str], manifest: Manifest, where: str) -> Integers:
    """Return the labels of classes by their names."""
    known = {name: label for label, name in enumerate(manifest.target.class_names or ())}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise DataError(f"classes must be those seen in training, got {unknown!r} in {where}")
    return np.array([known[name] for name in names], np.int64)


def encode_columns(
    columns: Mapping[str, Column], encodings: Sequence[ColumnEncoding], where: str, shape: Shape
) -> TableRows:
    """Encode columns like those of the training table; warn of values that training did not see.

    Args:
        columns: The columns by name; columns without an encoding are ignored.
        encodings: The encodings that training learnt.
        where: Name of the rows in messages.
        shape: Shape of a sample.
    """
    missing = [encoding.name for encoding in encodings if encoding.name not in columns]
    if missing:
        raise DataError(f"{where} must have the columns that the model was trained on, missing: {', '.join(missing)}")
    check_columns(columns, encodings, where)
    num_rows = len(next(iter(columns.values())).values)
    imputed, unseen = np.zeros(num_rows, bool), np.zeros(num_rows, bool)
    for encoding in encodings:
        column = columns[encoding.name]
        lacking = column.missing & (not encoding.marks_missing)
        if lacking.any() and len(shape) > 1:
            raise DataError(
                f"column {column.name!r} of {where} must have no missing values, as in training, got one in row "
                f"{lacking.argmax() + 1}"
            )
        strange = _unseen(column, encoding)
        _warn_of_values(column, encoding, lacking, strange, where)
        imputed |= lacking
        unseen |= strange
    return TableRows(encoded(dict(columns), encodings).reshape(-1, *shape), imputed, unseen, columns)


def _unseen(column: Column, encoding: ColumnEncoding) -> Flags:
    if encoding.is_numeric or encoding.has_others:
        return np.zeros(len(column.values), bool)
    return ~np.isin(column.values.astype(str), encoding.categories) & ~column.missing


def _warn_of_values(column: Column, encoding: ColumnEncoding, lacking: Flags, strange: Flags, where: str) -> None:
    if lacking.any():
        instead = "the training median" if encoding.is_numeric else "none of its categories"
        _warn(
            f"column {column.name!r} of {where} lacks values in {count(int(lacking.sum()), 'row')}, but had all in "
            f"training: {instead} is used there"
        )
    if strange.any():
        _warn(
            f"column {column.name!r} of {where} has values that training did not see in "
            f"{count(int(strange.sum()), 'row')}, such as {column.values[strange.argmax()]!r}: they count as none of "
            f"its categories"
        )


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=5)


def _column(encoding: ColumnEncoding, values: Sequence[object]) -> Column:
    """Return the values of one column in the form that a file gives them."""
    missing = reading_of([encoding]).missing_in(encoding.name)
    present = [None if is_missing(value, missing) else value for value in values]
    where = f"column {encoding.name!r}"
    if encoding.is_date:
        return Column(encoding.name, as_days(present, where), is_date=True)
    if encoding.is_numeric:
        found = np.array([_number(value, row, where) for row, value in enumerate(present)])
        return Column(encoding.name, without_marks(found, missing))
    texts = np.empty(len(present), object)
    texts[:] = [None if value is None else as_text(value, encoding.name, "the rows") for value in present]
    return Column(encoding.name, texts)


def _number(value: object, row: int, where: str) -> float:
    if value is None or (isinstance(value, str) and MARK.fullmatch(value.strip())):
        return np.nan
    try:
        number = float(value) if isinstance(value, str | numbers.Real) else None
    except ValueError:
        number = None
    if number is None or not np.isfinite(number):
        raise DataError(f"{where} must hold finite numbers, got {value!r} in row {row + 1}")
    return number


def _class_name(text: str) -> str:
    """Return the name of a class as training spells it: whole numbers without a decimal point."""
    try:
        return str(int(float(text))) if float(text) == int(float(text)) else text
    except (ValueError, OverflowError):
        return text
