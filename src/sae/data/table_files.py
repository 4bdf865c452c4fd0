"""Columns of CSV and Parquet files."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sae.core.errors import DataError, MissingExtraError, SaeError
from sae.core.progress import reading as reading_progress
from sae.data.cache import LARGEST_IN_MEMORY, nameless_file
from sae.data.columns import (
    Column,
    Reading,
    as_column,
    as_days,
    as_numbers,
    as_texts,
    check_finite,
    ignoring,
    without_marks,
)
from sae.data.dataset import Cells, Features

if TYPE_CHECKING:
    from pyarrow import ChunkedArray
    from pyarrow.parquet import ParquetFile

SEPARATORS = (",", ";", "\t")
"""Characters that may separate the values of a CSV; in the header, the most frequent one does."""
MOST_COLUMNS = 20_000
"""Upper limit of columns: each one is encoded, described, and has weights in the first layer."""
KILOBYTE = 1000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**6}
"""Parts of a second in each unit of Parquet's times; nanoseconds are cut to microseconds."""
TEXTS_AT_ONCE = 20_000
"""Rows of a CSV that are in memory as texts at the same time."""


def read_columns(path: Path, reading: Reading | None = None) -> dict[str, Column]:
    """Read the columns of a CSV or Parquet file by name, in the order of the file."""
    read = _read_parquet if path.suffix.lower() == ".parquet" else _read_csv
    columns = read(path, reading or Reading())
    if not columns or not len(next(iter(columns.values())).values):
        raise DataError(f"{path} must hold rows, got none")
    for column in columns.values():
        check_finite(column, path)
    return columns


def column_names(path: Path) -> list[str]:
    """Return the names of all columns of a file."""
    if path.suffix.lower() != ".parquet":
        with _opened(path) as rows:
            names = _header(next(rows, []), path)
        if not names:
            raise DataError(f"{path} must hold rows, got none")
        return names
    return _header(list(_parquet_file(path).schema_arrow.names), path)


def first_row(path: Path) -> list[str]:
    """Return the texts in the first row of a file; empty if there are none, or if it cannot be read."""
    try:
        if path.suffix.lower() == ".parquet":
            return _first_parquet_row(path)
        with path.open(newline="", encoding="utf-8-sig") as file:
            separator = separator_of(file.readline())
            return next(csv.reader(file, delimiter=separator), [])
    except (OSError, UnicodeDecodeError, csv.Error, SaeError):
        return []


def _first_parquet_row(path: Path) -> list[str]:
    file = _parquet_file(path)
    from pyarrow import types  # after the check that it is installed

    texts = [
        field.name for field in file.schema_arrow if types.is_string(field.type) or types.is_large_string(field.type)
    ]
    with _reading_parquet(path):
        rows = next(file.iter_batches(batch_size=1, columns=texts), None) if texts else None
        return [] if rows is None else [str(cell) for row in rows.to_pylist() for cell in row.values()]


def _read_csv(path: Path, reading: Reading) -> dict[str, Column]:
    """Read a CSV in pieces; start again if a column of numbers turns out to hold texts after its first piece."""
    texts = {*reading.texts, *reading.dates}
    while True:
        pieces, broken = _pieces(path, reading, texts)
        if not broken:
            break
        texts |= broken
        for column in pieces.values():
            column.close()
    columns = {}
    for name in list(pieces):
        columns[name] = as_column(name, pieces.pop(name).join(), reading, path)
    return columns


class Pieces:
    """The pieces of a column. Numbers are on disk if the file is large; texts repeat, and need little memory."""

    def __init__(self, *, on_disk: bool) -> None:
        self.file = nameless_file() if on_disk else None
        self.arrays: list[Cells] = []
        self.has_any = False

    def append(self, values: Cells) -> None:
        """Add the next rows."""
        self.has_any = True
        if self.file is not None and values.dtype != np.dtype(object):
            self.file.write(values.tobytes())
        else:
            self.arrays.append(values)

    def join(self) -> Cells:
        """Return all rows, (row,), and close the file."""
        with self.file or nullcontext():
            if self.file is not None and not self.arrays and self.has_any:
                self.file.flush()
                numbers: Features = np.memmap(self.file, np.float64, "r+")
                return numbers
        joined: Cells = np.concatenate(self.arrays or [np.zeros(0)])  # type: ignore[assignment]
        return joined

    def close(self) -> None:
        """Drop all rows."""
        self.arrays = []
        if self.file is not None:
            self.file.close()


def _pieces(path: Path, reading: Reading, texts: Collection[str]) -> tuple[dict[str, Pieces], set[str]]:
    """Return the pieces of each column, and the columns in which texts follow pieces of numbers."""
    size = path.stat().st_size if path.exists() else 0
    with _opened(path) as rows, reading_progress(path.name, size // KILOBYTE, "kB") as advance:
        names = _header(next(rows, []), path)
        taken = [(index, name) for index, name in enumerate(names) if reading.takes(name)]
        missing = {name: reading.missing_in(name) for _, name in taken}
        pieces = {name: Pieces(on_disk=size > LARGEST_IN_MEMORY) for _, name in taken}
        are_texts, broken = {name for _, name in taken if name in texts}, set()
        start = 1
        while chunk := list(islice(rows, TEXTS_AT_ONCE)):
            wrong = next((number for number, row in enumerate(chunk) if len(row) != len(names)), None)
            if wrong is not None:
                raise DataError(
                    f"every row must have {len(names)} values, got {len(chunk[wrong])} in row {start + wrong} of {path}"
                )
            for index, name in taken:
                cells = [row[index] for row in chunk]
                numbers = None if name in are_texts or name in broken else as_numbers(cells, missing[name])
                if numbers is None and name not in are_texts and pieces[name].has_any:
                    broken.add(name)
                elif numbers is None:
                    are_texts.add(name)
                pieces[name].append(as_texts(cells, missing[name]) if numbers is None else numbers)
            start += len(chunk)
            advance(sum(map(len, chunk[0])) * len(chunk) // KILOBYTE)  # approximately
    return pieces, broken


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[list[str]]]:
    """Give the rows of a CSV file that are not empty, starting with the header."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            separator = separator_of(file.readline())
            file.seek(0)
            yield (row for row in csv.reader(file, delimiter=separator, strict=True) if row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} must be a CSV file in UTF-8, but cannot be read: {error}") from None


def separator_of(header: str) -> str:
    """Return the separator of a CSV: the most frequent one in its header, outside quotes.

    Example:
        >>> separator_of('id;"name, first";age'), separator_of("a,b"), separator_of("alone")
        (';', ',', ',')
    """
    bare = re.sub(r'"[^"]*"', "", header)
    return max(SEPARATORS, key=bare.count)


def _header(row: list[str], path: Path) -> list[str]:
    if len(row) > MOST_COLUMNS:
        raise DataError(f"a table must have at most {MOST_COLUMNS:,} columns, got {len(row):,} in {path}")
    names = [name.strip() for name in row]
    twice = next((name for name, number in Counter(names).items() if number > 1), None)
    if twice is not None:
        raise DataError(f"columns must have different names, got {twice!r} twice in {path}")
    return names


def _read_parquet(path: Path, reading: Reading) -> dict[str, Column]:
    file = _parquet_file(path)
    names = [name for name in file.schema_arrow.names if reading.takes(name)]
    columns = {}
    for name in names:  # one at a time: a whole table would be in memory twice
        with _reading_parquet(path, f"column {name!r}"):
            columns[name] = _arrow_column(name, file.read([name]).column(0), reading, path)
    return columns


@contextmanager
def _reading_parquet(path: Path, what: str = "it") -> Iterator[None]:
    """Turn an exception of pyarrow for a damaged file, or for values that Python cannot hold, into a DataError."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, ValueError, IndexError, KeyError, OverflowError) as error:
        raise DataError(f"{path} must be a Parquet file, but {what} cannot be read: {error}") from None


def _parquet_file(path: Path) -> "ParquetFile":
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise (MissingExtraError.of(error, f"reading {path}") or error) from None
    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} must be a Parquet file, but cannot be read: {error}") from None


def _arrow_column(name: str, values: "ChunkedArray", reading: Reading, path: Path) -> Column:
    import pyarrow
    from pyarrow import types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    is_date = types.is_date(kind) or types.is_timestamp(kind)
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind)
    if name in reading.texts or (is_text and name not in reading.dates):
        texts = as_texts(
            ["" if value is None else str(value) for value in values.to_pylist()], reading.missing_in(name)
        )
        if (
            types.is_dictionary(values.type) and name not in reading.marks
        ):  # categories, even if they are spelled like numbers
            return Column(name, texts)
        return as_column(name, texts, replace(reading, finds_dates=False), path, is_typed=True)
    if is_date:
        return Column(name, _arrow_days(values.cast(kind)), is_date=True)
    if name in reading.dates:
        return Column(name, as_days(values.to_pylist(), f"column {name!r} of {path}"), is_date=True)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast(kind).cast(pyarrow.float64(), safe=False).to_numpy().astype(np.float64)
        return Column(name, without_marks(numbers, reading.missing_in(name)))
    raise DataError(
        f"columns must hold numbers, texts, booleans or dates, got {kind} in column {name!r} of {path}: "
        f"leave it out with {ignoring([name])}"
    )


def _arrow_days(moments: "ChunkedArray") -> Features:
    """Return dates or times as days since 1970, (row,), with NaN for missing ones.

    They are computed from the stored whole numbers: Python has no years after 9999, and need not know a time zone.
    """
    import pyarrow
    from pyarrow import types

    is_day = types.is_date32(moments.type)
    stored = moments.cast(pyarrow.int32()).cast(pyarrow.int64()) if is_day else moments.cast(pyarrow.int64())
    whole = stored.fill_null(0).to_numpy()
    if types.is_date64(moments.type):
        days = (whole // 86_400_000).astype(np.float64)
    elif is_day:
        days = whole.astype(np.float64)
    else:
        unit = moments.type.unit
        days = (whole // 1000 if unit == "ns" else whole) / PER_SECOND[unit] / 86_400
    return np.where(stored.is_null().to_numpy(), np.nan, days)
