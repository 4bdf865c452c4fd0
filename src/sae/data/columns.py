"""Columns of tables, as CSV and Parquet files hold them: numbers, texts and dates."""

import csv
import re
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sae.core.errors import DataError, MissingExtraError, SaeError
from sae.core.progress import reading as reading_progress
from sae.data.cache import LARGEST_IN_MEMORY, nameless_file
from sae.data.dataset import Cells, Features, Mask

if TYPE_CHECKING:
    from pyarrow import ChunkedArray
    from pyarrow.parquet import ParquetFile

MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Spellings of a missing value in a CSV, in lower case; any case is accepted."""
SEPARATORS = (",", ";", "\t")
"""Characters that may separate the values of a CSV; in the header, the most frequent one does."""
MOST_COLUMNS = 20_000
"""Upper limit of columns: each one is encoded, described, and has weights in the first layer."""
KILOBYTE = 1000
TEXTS_AT_ONCE = 20_000
"""Rows of a CSV that are in memory as texts at the same time."""
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Its name.
        values: (row,): numbers in float64 with NaN for missing values, dates as days since 1970 likewise, or
            texts as objects with None.
        is_date: Whether the numbers are days since 1970.
    """

    name: str
    values: Cells
    is_date: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers, perhaps those of dates."""
        return self.values.dtype != np.dtype(object)

    @property
    def numbers(self) -> Features:
        """The values of a numeric column."""
        assert self.is_numeric, f"column {self.name} must hold numbers"
        return self.values.astype(np.float64, copy=False)

    @property
    def missing(self) -> Mask:
        """Whether each row has no value, (row,)."""
        if self.is_numeric:
            return np.isnan(self.numbers)
        return np.array([value is None for value in self.values], bool)


@dataclass(frozen=True)
class Reading:
    """Rules for reading the columns of a file.

    Attributes:
        texts: Columns of texts, even if they look like numbers.
        dates: Columns of dates.
        only: The columns to read; None reads all.
        finds_dates: Whether other columns in which every value is an ISO date hold dates, too.
    """

    texts: Collection[str] = ()
    dates: Collection[str] = ()
    only: Collection[str] | None = None
    finds_dates: bool = True

    def takes(self, name: str) -> bool:
        """Return whether a column is read."""
        return self.only is None or name in self.only


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
                numbers = None if name in are_texts or name in broken else _numbers(cells)
                if numbers is None and name not in are_texts and pieces[name].has_any:
                    broken.add(name)
                elif numbers is None:
                    are_texts.add(name)
                pieces[name].append(_texts(cells) if numbers is None else numbers)
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


def _numbers(cells: Sequence[str]) -> Features | None:
    """Return cells as numbers, or None if one is a text."""
    with suppress(ValueError):  # a few times faster, where nothing is missing
        return np.array(list(map(float, cells)))
    try:
        return np.array([np.nan if cell.strip().lower() in MISSING_TEXTS else float(cell) for cell in cells])
    except ValueError:
        return None


def _texts(cells: Sequence[str]) -> Cells:
    stripped = (cell.strip() for cell in cells)
    return np.array([None if cell.lower() in MISSING_TEXTS else sys.intern(cell) for cell in stripped], object)


def as_column(name: str, values: Cells, reading: Reading, path: Path | str) -> Column:
    """Return a column of a CSV or in memory; texts may be dates; numbers with a decimal comma are refused."""
    if values.dtype != np.dtype(object) or (name in reading.texts and name not in reading.dates):
        return Column(name, values)
    present = [value for value in values if value is not None]
    if name in reading.dates or (reading.finds_dates and present and all(map(ISO_DATE.fullmatch, present))):
        return Column(name, as_days(values, f"column {name!r} of {path}"), is_date=True)
    if any("," in value for value in present) and all(map(DECIMAL_COMMA.fullmatch, present)):
        row = next(index for index, value in enumerate(values) if value is not None and "," in value)
        raise DataError(
            f"numbers must have a decimal point, got {values[row]!r} in row {row + 1}, column {name!r} of {path}: "
            f"write {values[row].replace(',', '.')}, because a comma may also separate thousands"
        )
    return Column(name, values)


def as_days(values: Cells | Sequence[object], where: str) -> Features:
    """Return dates as days since 1970, (row,), with NaN for missing ones.

    Times of day are fractions of a day. A time without a zone is taken as UTC.

    Args:
        values: ISO texts, dates or times; None is missing.
        where: The column, for messages.

    Example:
        >>> as_days(["1970-01-02", None, "1970-01-03T12:00:00Z"], "column").tolist()
        [1.0, nan, 2.5]
    """
    known: dict[object, float] = {None: np.nan}
    for row, value in enumerate(values):
        if value not in known:
            known[value] = _days(value, row, where)
    return np.array([known[value] for value in values], np.float64)


def _days(value: object, row: int, where: str) -> float:
    try:
        moment = value if isinstance(value, date) else datetime.fromisoformat(str(value))
    except ValueError:
        raise DataError(
            f"dates must be like 2024-01-31 or 2024-01-31T12:00:00, got {value!r} in row {row + 1}, {where}"
        ) from None
    if not isinstance(moment, datetime):
        return float(moment.toordinal() - EPOCH.toordinal())
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (zoned - EPOCH).total_seconds() / 86_400


def _read_parquet(path: Path, reading: Reading) -> dict[str, Column]:
    file = _parquet_file(path)
    names = [name for name in file.schema_arrow.names if reading.takes(name)]
    columns = {}
    for name in names:  # one at a time: a whole table would be in memory twice
        with _reading_parquet(path):
            column = file.read([name]).column(0)
        columns[name] = _arrow_column(name, column, reading, path)
    return columns


@contextmanager
def _reading_parquet(path: Path) -> Iterator[None]:
    """Turn an exception of pyarrow for a damaged file into a DataError."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, ValueError, IndexError) as error:
        raise DataError(f"{path} must be a Parquet file, but cannot be read: {error}") from None


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
        listed = values.to_pylist()
        return Column(name, np.array([None if value is None else sys.intern(str(value)) for value in listed], object))
    if is_date or name in reading.dates:
        return Column(name, as_days(values.to_pylist(), f"column {name!r} of {path}"), is_date=True)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Column(name, values.cast(pyarrow.float64(), safe=False).to_numpy().astype(np.float64))
    raise DataError(
        f"columns must hold numbers, texts, booleans or dates, got {kind} in column {name!r} of {path}: "
        f"leave it out with {ignoring([name])}"
    )


def ignoring(names: Sequence[str]) -> str:
    """Return the flag that leaves out some columns, quoted for a shell.

    Example:
        >>> ignoring(["id", "zip code"])
        "--ignore 'id,zip code'"
    """
    return f"--ignore {shlex.quote(','.join(names))}"


def check_finite(column: Column, where: Path | str) -> None:
    """Refuse a column with infinite numbers."""
    if column.is_numeric:
        wrong = np.flatnonzero(np.isinf(column.numbers))
        if wrong.size:
            raise DataError(
                f"numbers must be finite, got {column.values[wrong[0]]} in row {wrong[0] + 1}, "
                f"column {column.name!r} of {where}"
            )
