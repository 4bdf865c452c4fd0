"""Inputs of an estimator, checked like scikit-learn does and read like a file."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from sae.core.errors import ConfigError, DataError, SaeError, ShapeError
from sae.data.columns import Column, Reading
from sae.data.dataset import Array, Indices
from sae.data.frames import ColumnFrame, array_columns, frame_columns, hold_out, is_frame
from sae.estimators.fitting import TABLE, Goal, Rows

FEWEST_ROWS = 3
"""Fewest rows: two to train on, because BatchNorm cannot learn from one, and one for validation."""


class EstimatorError(SaeError, ValueError):
    """A setting or the data of an estimator cannot be used; a ValueError like scikit-learn's errors."""

    exit_code = 2


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise errors about settings and data as ValueErrors, like scikit-learn."""
    try:
        yield
    except (ConfigError, DataError, ShapeError) as error:
        raise EstimatorError(str(error)) from error


def read_columns(estimator: BaseEstimator, x: object, reading: Reading, *, reset: bool) -> dict[str, Column]:
    """Return the columns of an array (row, column) or of a data frame.

    Args:
        estimator: Its number and names of columns are set or checked.
        x: The rows.
        reading: How to read columns whose types do not tell what they hold.
        reset: Whether the estimator is being fitted.
    """
    if is_frame(x):
        _check_names(x)
        validate_data(estimator, X=x, reset=reset, skip_check_array=True)
        if not len(x):
            raise DataError(f"Found array with 0 sample(s) in {TABLE} while a minimum of 1 is required.")
        if not list(x.columns):
            raise DataError(f"Found array with 0 feature(s) in {TABLE} while a minimum of 1 is required.")
        return frame_columns(x, reading, TABLE)
    array = validate_data(
        estimator, X=_as_array(x), reset=reset, dtype=None, ensure_all_finite="allow-nan"
    )  # numbers, or objects
    names = [f"x{index}" for index in range(array.shape[1])]
    known = getattr(estimator, "feature_names_in_", names)  # an array after a data frame: scikit-learn has warned
    return array_columns(array, [str(name) for name in known], reading, TABLE)


def _check_names(frame: ColumnFrame) -> None:
    """Refuse two columns of one name with a short message; scikit-learn's own is many lines long."""
    names = list(frame.columns)
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise DataError(
            f"columns of {TABLE} must have different names, got {doubled[0]!r} {names.count(doubled[0])} times"
        )


def check_given_names(parameter: str, names: object, columns: Mapping[str, Column]) -> None:
    """Refuse names of unknown columns, and a text instead of a list of names."""
    if isinstance(names, str):
        raise ConfigError(f"{parameter} must be a list of columns, got the text {names!r}: give [{names!r}]")
    unknown = [name for name in names if name not in columns] if isinstance(names, Iterable) else [names]
    if unknown:
        raise ConfigError(f"{parameter} must name columns of {TABLE}, {', '.join(columns)}; got {unknown[0]!r}")


def _as_array(x: object) -> object:
    """Return lists as an array of objects if they hold texts, so that numbers beside them stay numbers."""
    if isinstance(x, list | tuple):
        array = np.asarray(x)
        return np.asarray(x, object) if array.dtype.kind in "US" else array
    return x


def read_targets(estimator: BaseEstimator, y: object) -> NDArray[np.generic]:
    """Return the targets, (row[, target]), in their own type."""
    if y is None:
        raise DataError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    given = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator)
    has_several = given.ndim == 2 and given.shape[1] > 1
    targets: NDArray[np.generic] = given if has_several else column_or_1d(given, warn=True)
    if targets.dtype == object and any(value is None for value in targets.tolist()):
        raise DataError("y must have no missing values, got None: drop those rows")
    return targets


def names_of(y: object, targets: NDArray[np.generic]) -> tuple[str, ...] | None:
    """Return the names of several targets, those of a data frame's columns or their numbers; None for a single one."""
    if targets.ndim == 1:
        return None
    return tuple(map(str, y.columns if is_frame(y) else range(1, targets.shape[1] + 1)))


def read_weights(estimator: BaseEstimator, sample_weight: object, y: object) -> NDArray[np.float64]:
    """Return how much each row counts, (row,): at least 0, and not all 0."""
    weights: NDArray[np.float64] = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight", estimator=estimator
    )
    num_rows = len(read_targets(estimator, y))
    if weights.shape != (num_rows,):
        raise DataError(f"sample_weight must be one number for each of the {num_rows} rows, got shape {weights.shape}")
    if weights.min() < 0 or weights.max() == 0:
        got = f"{weights.min():g}" if weights.min() < 0 else "zero sample weights only"
        raise DataError(f"sample_weight must be at least 0, and above 0 for some row, got {got}")
    return weights


def kept_rows(columns: Mapping[str, Column], kept: NDArray[np.bool_]) -> dict[str, Column]:
    """Return the columns with some of their rows."""
    return {name: replace(column, values=column.values[kept]) for name, column in columns.items()}


def reading_like(columns: Mapping[str, Column]) -> Reading:
    """Return how to read more rows of the same columns: texts, numbers and dates stay what they were."""
    texts = [name for name, column in columns.items() if not column.is_numeric]
    dates = [name for name, column in columns.items() if column.is_date]
    return Reading(texts, dates, finds_dates=False, marks={name: column.marks for name, column in columns.items()})


def check_lengths(columns: Mapping[str, Column], targets: Array) -> None:
    """Refuse rows without a target, and targets without a row."""
    num_rows = len(next(iter(columns.values())).values)
    if num_rows != len(targets):
        raise DataError(
            f"Found input variables with inconsistent numbers of samples: {[num_rows, len(targets)]}: "
            f"every row of {TABLE} must have one target"
        )


def hold_out_rows(columns: Mapping[str, Column], targets: Array, goal: Goal, seed: int, share: float) -> Rows:
    """Hold out a share of the rows for validation, the same share of each class."""
    check_lengths(columns, targets)
    if len(targets) < FEWEST_ROWS:
        raise DataError(
            f"there must be at least {FEWEST_ROWS} rows to train and to validate, got n_samples={len(targets)}"
        )
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise ConfigError(f"validation_fraction must be above 0 and below 1, got {share!r}")
    train, val = hold_out(targets, seed, share)
    if not len(val) or len(train) < FEWEST_ROWS - 1:
        raise DataError(
            f"there must be rows to train and to validate, got {len(train)} and {len(val)} of "
            f"n_samples={len(targets)}: give more rows of each class, another validation_fraction, or X_val and y_val"
        )
    return Rows(columns, targets, goal, train, val)


def join_rows(
    columns: Mapping[str, Column],
    targets: Array,
    goal: Goal,
    val_columns: Mapping[str, Column],
    val_targets: Array,
) -> Rows:
    """Join the rows to train on and those to validate on."""
    check_lengths(columns, targets)
    check_lengths(val_columns, val_targets)
    joined = {name: _join(column, val_columns[name]) for name, column in columns.items()}
    rows: Indices = np.arange(len(targets) + len(val_targets))
    train, val = rows[: len(targets)], rows[len(targets) :]
    return Rows(joined, np.concatenate([targets, val_targets]), goal, train, val)


def _join(column: Column, other: Column) -> Column:
    if column.is_numeric != other.is_numeric or column.is_date != other.is_date:
        raise DataError(
            f"column {column.name!r} of X_val must have the type that it has in {TABLE}, but it has another"
        )
    values = np.concatenate([column.values, other.values])
    return Column(column.name, values, column.is_date, column.marks)
