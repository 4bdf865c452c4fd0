"""Columns of tables: what texts, numbers and dates their cells hold."""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np

from sae.core.errors import DataError
from sae.core.wording import quoted
from sae.data.dataset import Cells, Features, Mask

MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Spellings of a missing value in a CSV, in lower case; any case is accepted."""
MARK = re.compile(r"[?*.]+|[-–—]+|#?(n/?a|unknown|unk|missing|undefined|div/0!|value!|ref!|num!)", re.IGNORECASE)
"""Texts that stand for a missing value among numbers: punctuation such as ?, errors of spreadsheets, some words."""
LEAST_NUMBERS = 0.5
"""Share of numbers from which texts like `MARK` in a column are missing values, and not categories."""
LEADING_ZERO = re.compile(r"0\d+")
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
        marks: Texts that were read as missing values, besides the usual ones.
    """

    name: str
    values: Cells
    is_date: bool = False
    marks: tuple[str, ...] = ()

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
        usual: Texts that stand for a missing value, in lower case.
        missing: More of them, in any case.
        marks: The same for some columns of numbers, which are known to hold numbers, as training found them.
        unmarked: Columns in which nothing else is a mark of a missing value, such as classes.
    """

    texts: Collection[str] = ()
    dates: Collection[str] = ()
    only: Collection[str] | None = None
    finds_dates: bool = True
    usual: Collection[str] = MISSING_TEXTS
    missing: Collection[str] = ()
    marks: Mapping[str, Collection[str]] = field(default_factory=dict)
    unmarked: Collection[str] = ()

    def missing_in(self, name: str) -> frozenset[str]:
        """Return the texts that stand for a missing value in a column, in lower case."""
        return frozenset(self.usual) | {text.lower() for text in (*self.missing, *self.marks.get(name, ()))}

    def takes(self, name: str) -> bool:
        """Return whether a column is read."""
        return self.only is None or name in self.only


def as_numbers(cells: Sequence[str], missing: Collection[str]) -> Features | None:
    """Return cells as numbers, or None if one is a text."""
    if missing == MISSING_TEXTS:
        with suppress(ValueError):  # a few times faster, where nothing is missing
            return np.array(list(map(float, cells)))
    try:
        numbers = np.array([np.nan if cell.strip().lower() in missing else float(cell) for cell in cells])
    except ValueError:
        return None
    return without_marks(numbers, missing)


def as_texts(cells: Sequence[str], missing: Collection[str]) -> Cells:
    """Return cells as texts, with None for those that are missing."""
    stripped = (cell.strip() for cell in cells)
    return np.array([None if cell.lower() in missing else sys.intern(cell) for cell in stripped], object)


def as_column(name: str, values: Cells, reading: Reading, path: Path | str, *, is_typed: bool = False) -> Column:
    """Return a column of a file or in memory; texts may be dates, or numbers and marks of missing values.

    Numbers with a decimal comma are refused. In a typed source, where numbers need not be texts, texts that begin with
    0 are codes.
    """
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
    found = None if name in reading.unmarked else _with_marks(name, values, reading, takes_codes=not is_typed)
    return found or Column(name, values)


def _with_marks(name: str, texts: Cells, reading: Reading, *, takes_codes: bool) -> Column | None:
    """Return texts as numbers, with the texts among them that stand for missing values; None if there are others."""
    counts = Counter(text for text in texts if text is not None)
    parsed = {text: as_number(text) for text in counts}
    marks = tuple(sorted(text for text, number in parsed.items() if number is None))
    share = 1 - sum(counts[text] for text in marks) / max(1, counts.total())
    is_known = name in reading.marks
    if any(not MARK.fullmatch(text) for text in marks) or not (is_known or share >= LEAST_NUMBERS):
        return None
    if not is_known and (not counts or (not takes_codes and any(map(LEADING_ZERO.fullmatch, counts)))):
        return None
    numbers = {None: np.nan, **{text: np.nan if number is None else number for text, number in parsed.items()}}
    values = without_marks(np.array([numbers[text] for text in texts], np.float64), reading.missing_in(name))
    return Column(name, values, marks=marks)


def text_among_numbers(column: Column) -> str | None:
    """Return a text of a column of texts in which most are numbers; None for any other column."""
    if column.is_numeric:
        return None
    counts = Counter(text for text in column.values if text is not None)
    texts = [text for text in counts if as_number(text) is None]
    share = 1 - sum(counts[text] for text in texts) / max(1, counts.total())
    return texts[0] if texts and share >= LEAST_NUMBERS else None


def without_marks(numbers: Features, missing: Collection[str]) -> Features:
    """Return numbers with NaN where one stands for a missing value.

    Example:
        >>> without_marks(np.array([1.0, -999.0]), {"-999"}).tolist()
        [1.0, nan]
    """
    marks = [number for text in missing if (number := as_number(text)) is not None]
    return np.where(np.isin(numbers, marks), np.nan, numbers) if marks else numbers


def as_number(text: str) -> float | None:
    """Return a text as a number, or None if it is none.

    Example:
        >>> as_number(" 1e3 "), as_number("5 kg")
        (1000.0, None)
    """
    try:
        return float(text)
    except ValueError:
        return None


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


def ignoring(names: Sequence[str]) -> str:
    """Return the flag that leaves out some columns, quoted for a shell.

    Example:
        >>> ignoring(["id", "zip code"])
        "--ignore 'id,zip code'"
    """
    return f"--ignore {shlex.quote(','.join(map(quoted, names)))}"


def check_finite(column: Column, where: Path | str) -> None:
    """Refuse a column with infinite numbers."""
    if column.is_numeric:
        wrong = np.flatnonzero(np.isinf(column.numbers))
        if wrong.size:
            raise DataError(
                f"numbers must be finite, got {column.values[wrong[0]]} in row {wrong[0] + 1}, "
                f"column {column.name!r} of {where}"
            )
