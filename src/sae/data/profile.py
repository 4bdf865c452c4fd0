"""What is unusual about the columns of a table, which is told, or refused, before a network learns from them."""

import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from sae.core.errors import DataError, DataWarning
from sae.data.columns import Column, ignoring, text_among_numbers
from sae.data.dataset import ColumnEncoding, Features, Indices, Normalisation, is_resolved

MOST_CATEGORIES = 256
"""Most distinct texts of a column that have a feature each: the most frequent ones."""
FEWEST_WORDS = 3
"""With at least so many words on average, different texts are free text and not names."""
FEWEST_FOR_IDENTIFIER = 20
"""With at least this many rows, distinct values in all of them are no accident."""
IDENTIFIER = re.compile(r"(.*[^a-z])?(id|uuid|guid)", re.IGNORECASE)
"""Names of columns that hold identifiers if their numbers are all different."""


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
        if not len(present):
            useless[column.name] = "no value in the training rows"
        elif distinct > MOST_CATEGORIES and distinct > len(present) / 2:
            words = np.mean([len(text.split()) for text in present])
            kind = "free text, which is not supported" if words >= FEWEST_WORDS else "different texts in most rows"
            useless[column.name] = kind
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
        if not any(np.ptp(inputs[training, feature]) for feature in features):
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
