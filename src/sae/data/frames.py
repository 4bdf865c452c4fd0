"""Tables in memory: data frames and arrays become the same columns and data set as a file with their content."""

import numbers
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sae.config.run import RunConfig, lay_over
from sae.config.settings import Layer, Values, merge
from sae.core.errors import DataError
from sae.data.catalogue import TABLE_SUGGESTS
from sae.data.columns import (
    MISSING_TEXTS,
    Column,
    Reading,
    as_column,
    as_days,
    as_number,
    check_finite,
    without_marks,
)
from sae.data.dataset import (
    Array,
    Cells,
    Dataset,
    Features,
    Indices,
    split_up,
    standardisation,
    task_of,
)
from sae.data.defaults import suggest_training
from sae.data.profile import check_usable, warn_of_marks
from sae.data.splits import hold_out_validation
from sae.data.table import encoded, learn_encoding

MICROSECONDS_PER_DAY = 86_400 * 10**6
MISSING_TYPES = ("NAType", "NaTType")
"""Types of the missing values of pandas, which need not be installed."""


@runtime_checkable
class ColumnFrame(Protocol):
    """The part of a data frame's interface that is used; pandas or polars need not be installed."""

    @property
    def columns(self) -> Iterable[object]:
        """Names of the columns."""

    def __getitem__(self, name: object, /) -> object: ...

    def __len__(self) -> int: ...


def is_frame(table: object) -> TypeGuard[ColumnFrame]:
    """Return whether a table has columns with names."""
    return isinstance(table, ColumnFrame) and not isinstance(table, Mapping)


def frame_columns(frame: ColumnFrame, reading: Reading, where: str) -> dict[str, Column]:
    """Return the columns of a data frame by name, in its order.

    Args:
        frame: The data frame.
        reading: How to read columns whose types do not tell what they hold.
        where: Name of the table in messages.
    """
    found = {str(name): column_of(str(name), frame[name], reading, where) for name in frame.columns}
    if len(found) < len(list(frame.columns)):
        raise DataError(f"columns must have different names, got {', '.join(map(str, frame.columns))} in {where}")
    return found


def array_columns(array: NDArray[np.generic], names: Sequence[str], reading: Reading, where: str) -> dict[str, Column]:
    """Return the columns of an array, (row, column), under these names."""
    return {name: column_of(name, array[:, index], reading, where) for index, name in enumerate(names)}


def column_of(name: str, given: object, reading: Reading, where: str) -> Column:
    """Return a column in the form that a file gives it.

    The type decides what numbers, dates and texts are. Booleans and categories are texts. Texts that are
    all ISO dates are dates, as in a CSV, and those that are all numbers or marks of missing values are numbers,
    unless one begins with 0, like a code.

    Args:
        name: Its name.
        given: Its values: an array, a list, or a column of a data frame.
        reading: How to read columns whose types do not tell what they hold.
        where: Name of the table in messages.

    Example:
        >>> column_of("age", [31, None], Reading(), "X").values.tolist()
        [31.0, nan]
        >>> column_of("born", ["1970-01-02", "1970-01-03"], Reading(), "X").is_date
        True
    """
    values = np.asarray(given, object if isinstance(given, list) else None)  # object: numbers stay numbers
    missing = reading.missing_in(name)
    is_text = name in reading.texts or (_is_category(given) and name not in reading.marks)
    if values.dtype.kind in "iuf" and not is_text and name not in reading.dates:
        return _checked(Column(name, without_marks(values.astype(np.float64), missing)), where)
    if values.dtype.kind == "M" and not is_text:
        return Column(name, _days(values), is_date=True)
    if values.dtype.kind not in "biufMOSUT":
        raise DataError(f"columns must hold numbers, texts or dates, got {values.dtype} in column {name!r} of {where}")
    cells = [None if is_missing(value, missing) else value for value in values.tolist()]
    present = [cell for cell in cells if cell is not None]
    if not is_text and name not in reading.dates and all(map(_is_real, present)):
        return _checked(Column(name, np.array([np.nan if c is None else c for c in cells], np.float64)), where)
    if not is_text and all(isinstance(cell, date) for cell in present):
        return Column(name, as_days(cells, f"column {name!r} of {where}"), is_date=True)
    texts = np.empty(len(cells), object)
    texts[:] = [None if cell is None else sys.intern(as_text(cell, name, where)) for cell in cells]
    return Column(name, texts) if is_text else as_column(name, texts, reading, where, is_typed=True)


def _is_category(given: object) -> bool:
    """Return whether values are of the category type of pandas, even if its categories are numbers."""
    return str(getattr(given, "dtype", "")) == "category"


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _days(moments: NDArray[np.generic]) -> Features:
    """Return times of numpy as days since 1970, with NaN for missing ones."""
    microseconds = moments.astype("datetime64[us]").astype(np.int64)
    return np.where(np.isnat(moments.astype("datetime64[us]")), np.nan, microseconds / MICROSECONDS_PER_DAY)


def is_missing(value: object, missing: Collection[str] = MISSING_TEXTS) -> bool:
    """Return whether a value is missing: None, NaN, NA and NaT of pandas, or one of these spellings in any case.

    Example:
        >>> is_missing(None), is_missing(float("nan")), is_missing(" N/A "), is_missing(0)
        (True, True, True, False)
    """
    if value is None or type(value).__name__ in MISSING_TYPES:
        return True
    if isinstance(value, str):
        return value.strip().lower() in missing
    if value != value:  # NaN
        return True
    is_number = isinstance(value, numbers.Real) and len(missing) > len(MISSING_TEXTS)
    return is_number and value in {as_number(text) for text in missing}


def as_text(value: object, name: str = "", where: str = "") -> str:
    """Return a category as a file spells it; pandas turns integers beside missing values into floats.

    Example:
        >>> as_text(3.0), as_text(" red "), as_text(True)
        ('3', 'red', 'True')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, str | numbers.Number | np.bool_ | date):
        return str(value).strip()
    raise DataError(f"values must be texts, numbers or dates, got {value!r} in column {name!r} of {where}")


def _checked(column: Column, where: str) -> Column:
    """Return a column of numbers; refuse infinite ones."""
    check_finite(column, where)
    return column


def hold_out(targets: Array, seed: int, share: float) -> tuple[Indices, Indices]:
    """Return the rows for training and for validation; no class is in validation alone.

    Where every class has too few rows for its share, rows are drawn from all classes that have more than one.

    Args:
        targets: (row,); integers are class labels.
        seed: Seed of the random choice.
        share: Share of the rows for validation.

    Example:
        >>> [rows.tolist() for rows in hold_out(np.array([0, 0, 1, 1]), seed=0, share=0.2)]
        [[0, 1, 3], [2]]
    """
    train, val = hold_out_validation(targets, seed, share)
    if len(val):
        return train, val
    order = np.random.default_rng(seed).permutation(len(targets))
    spare = order
    if np.issubdtype(targets.dtype, np.integer):
        firsts = {int(targets[row]): row for row in order}.values()  # one row of each class stays
        spare = order[~np.isin(order, list(firsts))]
    val = np.sort(spare[: max(1, round(share * len(targets)))]) if len(order) > 1 else spare[:0]
    return np.setdiff1d(np.arange(len(targets)), val), val


def resolve_table(num_training: int, *layers: Layer) -> RunConfig:
    """Return the settings of a run on a table in memory: the given layers over those that suit its training rows.

    Example:
        >>> resolve_table(206, {"data": "X"}, {"method": {"inputs": 3}}).train.epochs
        143
    """
    given: Values = {}
    for layer in layers:
        given = merge(given, layer)
    suggested = merge(suggest_training(num_training), TABLE_SUGGESTS)
    return lay_over(suggested, given)


def dataset_of(
    columns: Mapping[str, Column],
    targets: Array,
    class_names: Sequence[str] | None,
    rows: tuple[Indices, Indices],
    where: str,
    task: str | None = None,
    target_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Make a data set of columns in memory, encoded and standardised by its training rows like a file.

    A data set has three splits, but here the caller keeps the test rows, so the validation rows serve as the test
    split, too.

    Args:
        columns: The columns to predict from.
        targets: Labels or values, (row[, target]).
        class_names: Names of the classes, if one of several is right.
        rows: Rows of train and val.
        where: Name of the table.
        task: As in settings; by default classification or regression.
        target_names: Names of the targets, if there are several.
    """
    train, val = rows
    learnt = task_of(
        task or ("regression" if class_names is None else "classification"), targets[train], class_names, where
    )
    warn_of_marks(columns.values(), where)
    check_usable(columns.values(), train, where)
    encodings = tuple(learn_encoding(column, train) for column in columns.values())
    inputs = encoded(dict(columns), encodings)
    names = None if class_names is None else tuple(class_names)
    normalisation = standardisation(inputs, train)
    dataset = split_up(where, inputs, targets, learnt, normalisation, (train, val, val), names, encodings)
    return replace(dataset, target_names=target_names)


def as_texts(column: Column) -> Cells:
    """Return a column as a CSV file spells it, with empty texts for missing values: numbers exactly, dates in ISO."""
    texts = np.empty(len(column.values), object)
    if column.is_date:
        moments = np.round(np.nan_to_num(column.numbers) * MICROSECONDS_PER_DAY).astype("datetime64[us]")
        texts[:] = np.datetime_as_string(moments).tolist()
    else:
        texts[:] = [repr(value) if column.is_numeric else value for value in column.values.tolist()]
    texts[column.missing] = ""
    return texts
