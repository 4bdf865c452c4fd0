"""CSV and Parquet files as columns of numbers or texts, with their missing values."""

import csv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sae.core.errors import DataError, MissingExtraError
from sae.data.dataset import Array

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""How a missing value is spelled in a CSV, in any case."""


@dataclass(frozen=True)
class Column:
    """One column; numbers are float64 with NaN where missing, texts are objects with None where missing."""

    name: str
    values: Array

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.values.dtype != np.dtype(object)

    @property
    def missing(self) -> Array:
        """(row,), true where there is no value."""
        if self.is_numeric:
            return np.isnan(self.values)
        return np.array([value is None for value in self.values], bool)


def read_columns(path: Path, texts: Collection[str] = ()) -> dict[str, Column]:
    """The columns of a file by name, in the order of the file.

    Args:
        path: A CSV or Parquet file.
        texts: Columns that hold texts, whatever theirs look like.
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
        raise DataError(f"{path} must be a CSV file in UTF-8, however it cannot be read: {error}") from None
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
    values = [None if cell.strip().lower() in MISSING else cell.strip() for cell in cells]
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
        raise DataError(f"{path} must be a Parquet file, however it cannot be read: {error}") from None
    return {name: _arrow_column(name, table.column(name), path, name in texts) for name in table.column_names}


def _arrow_column(name: str, values: Any, path: Path, is_text: bool) -> Column:
    from pyarrow import types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    if not is_text and (types.is_integer(kind) or types.is_floating(kind)):
        return Column(name, np.array([np.nan if value is None else value for value in values.to_pylist()], np.float64))
    if is_text or types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind):
        return Column(name, np.array([None if value is None else str(value) for value in values.to_pylist()], object))
    raise DataError(
        f"columns must hold numbers, texts or truth values, got {kind} in column {name!r} of {path}: drop it"
    )


def _check_finite(column: Column, path: Path) -> None:
    if column.is_numeric:
        wrong = np.flatnonzero(np.isinf(column.values))
        if wrong.size:
            raise DataError(
                f"numbers must be finite, got {column.values[wrong[0]]} in row {wrong[0] + 1}, "
                f"column {column.name!r} of {path}"
            )
