"""What is unusual about the columns of a table, which is told, or refused, before a network learns from them."""

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sae.core.errors import DataError, DataWarning
from sae.data.columns import Column, ignoring, text_among_numbers
from sae.data.dataset import Cells, ColumnEncoding, Features, Indices, Normalisation, is_resolved

MOST_CATEGORIES = 256
"""Most distinct texts of a column that have a feature each: the most frequent ones."""
FEWEST_WORDS = 3
"""With at least so many words on average, different texts are free text and not names."""
FEWEST_FOR_IDENTIFIER = 20
"""With at least this many rows, distinct values in all of them are no accident."""
IDENTIFIER = re.compile(r"(.*[^a-z])?(id|uuid|guid)", re.IGNORECASE)
"""Names of columns that hold identifiers if their numbers are all different."""


@dataclass(frozen=True)
class ColumnProfile:
    """A column of a table in short, and what a network makes of it.

    Attributes:
        name: Its name.
        holds: `numbers`, `dates` or `texts`; `anything` if it is not read.
        missing: Number of rows without a value.
        distinct: Number of different values.
        example: Its first value; empty if there is none.
        use: What is done with it.
    """

    name: str
    holds: Literal["numbers", "dates", "texts", "anything"]
    missing: int
    distinct: int
    example: str
    use: str


def profile_of(column: Column) -> ColumnProfile:
    """Describe a column that a network is to predict from.

    Example:
        >>> profile_of(Column("age", np.array([31.0, np.nan, 40.0]))).use
        'a number, and whether it is missing'
    """
    present = column.values[~column.missing]
    holds: Literal["numbers", "dates", "texts"] = (
        "dates" if column.is_date else "numbers" if column.is_numeric else "texts"
    )
    first = present[0] if len(present) else ""
    example = str(first)
    if column.is_numeric and len(present):
        example = str(np.datetime64(int(first), "D")) if column.is_date else f"{first:g}"
    missing, distinct = int(column.missing.sum()), len(set(present.tolist()))
    return ColumnProfile(column.name, holds, missing, distinct, example, _use(column, present, distinct))


def _use(column: Column, present: Cells, distinct: int) -> str:
    reason = obstacle(column, present)
    if reason is not None:
        return f"cannot be used: {reason}"
    if _is_identifier(column):
        return "looks like an identifier: ignore it"
    numbers = "year, month, weekday and day" if column.is_date else "a number"
    texts = f"the {MOST_CATEGORIES} most frequent of its texts" if distinct > MOST_CATEGORIES else "a category each"
    marks = f" ({', '.join(column.marks)})" if column.marks else ""
    missing = f", and whether it is missing{marks}" if column.missing.any() else ""
    return f"{numbers if column.is_numeric else texts}{missing}"


def obstacle(column: Column, present: Cells) -> str | None:
    """Return why nothing can be learnt from a column, if so.

    Args:
        column: The column.
        present: Its values where it has any, in the rows that count.
    """
    if not len(present):
        return "no value"
    distinct = 0 if column.is_numeric else len(set(present))
    if distinct <= MOST_CATEGORIES or distinct <= len(present) / 2:
        return None
    words = np.mean([len(text.split()) for text in present])
    return "free text, which is not supported" if words >= FEWEST_WORDS else "different texts in most rows"


def check_usable(columns: Iterable[Column], training: Indices, path: Path | str) -> None:
    """Refuse columns that nothing can be learnt from, all at once; say which categories are pooled.

    Args:
        columns: The columns with all rows.
        training: Indices of the training rows.
        path: Path or name of the table, for messages.
    """
    useless, pooled = {}, []
    for column in columns:
        present = column.values[training][~column.missing[training]]
        distinct = 0 if column.is_numeric else len(set(present))
        if (reason := obstacle(column, present)) is not None:
            useless[column.name] = reason
        elif distinct > MOST_CATEGORIES:
            pooled.append(f"{column.name!r} ({distinct:,} values)")
    if useless:
        reasons = ", ".join(f"{name!r} ({reason})" for name, reason in useless.items())
        advice = f"leave them out with {ignoring(list(useless))}" if isinstance(path, Path) else "leave them out"
        raise DataError(f"{path} has columns that cannot be used: {reasons}: {advice}")
    if pooled:
        _warn(
            f"{path} has columns with many texts, of which the {MOST_CATEGORIES} most frequent count, and the others "
            f"as none of them: {', '.join(pooled)}"
        )


def warn_of_marks(columns: Iterable[Column], path: Path | str) -> None:
    """Name the texts among numbers that were read as missing values."""
    every = list(columns)
    found = [f"{listed_names(column.marks)} in {column.name!r}" for column in every if column.marks]
    if found:
        _warn(f"{path} has marks among numbers, which are read as missing values: {', '.join(found)}")
    mixed = [f"{text!r} in {column.name!r}" for column in every if (text := text_among_numbers(column)) is not None]
    if mixed:
        _warn(
            f"{path} has texts among numbers, so these columns are read as categories: {', '.join(mixed)}; "
            f"correct them, or name what stands for a missing value with --missing"
        )


def warn_of_identifiers(columns: Iterable[Column], path: Path) -> None:
    """Warn of columns that look like identifiers: a network would memorise single rows by them."""
    found = [column.name for column in columns if _is_identifier(column)]
    if found:
        _warn(
            f"{path} has columns with another value in every row, like identifiers: {listed_names(found)}; "
            f"leave them out with {ignoring(found)}"
        )


def _is_identifier(column: Column) -> bool:
    """Return whether all values differ and are texts, row numbers, or whole numbers in a column named like an id."""
    values = column.values
    if column.is_date or len(values) < FEWEST_FOR_IDENTIFIER or column.missing.any():
        return False
    if not column.is_numeric:
        return len(set(values)) == len(values)
    numbers = column.numbers
    if numbers[0] in (0, 1) and (np.diff(numbers) == 1).all():
        return True
    has_name = IDENTIFIER.fullmatch(column.name) is not None
    return has_name and bool((numbers % 1 == 0).all()) and len(np.unique(numbers)) == len(numbers)


def warn_of_columns(
    inputs: Features, training: Indices, normalisation: Normalisation, encodings: Sequence[ColumnEncoding], path: Path
) -> None:
    """Warn of columns that are constant in the training rows, or whose spread float64 cannot hold."""
    start = 0
    constant, lost = [], []
    for encoding in encodings:
        features = range(start, start + encoding.num_features)
        start = features.stop
        if not any((inputs[training, feature] != inputs[training[0], feature]).any() for feature in features):
            constant.append(encoding.name)
        elif not all(is_resolved(normalisation.mean[i], normalisation.std[i], np.float64) for i in features):
            lost.append(encoding.name)
    if constant:
        _warn(
            f"{path} has columns with a single value in the training rows, which teach nothing: "
            f"{listed_names(constant)}; leave them out with {ignoring(constant)}"
        )
    if lost:
        _warn(
            f"{path} has columns whose numbers are so large that their spread is lost in rounding: "
            f"{listed_names(lost)}; subtract a constant from them first"
        )


def listed_names(names: Iterable[str]) -> str:
    """Return names in quotes, separated by commas."""
    return ", ".join(map(repr, names))


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=3)
