"""Rows of a table as the features that a model was trained on."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.data.dataset import ColumnEncoding
from sae.data.table import Column, read_columns
from sae.deploy.manifest import Manifest

Array = NDArray[Any]


def read_table(path: Path, manifest: Manifest) -> tuple[list[str], Array, Array | None]:
    """Names of the rows, counted from 1; features (row, feature); and the truth if its column is there.

    Columns are found by name, in any order; those that the model does not know are left alone.
    """
    encodings = [ColumnEncoding(**dict(part)) for part in manifest.input.columns or ()]
    target, is_classes = manifest.target.column, manifest.task == "classification"
    texts = [encoding.name for encoding in encodings if not encoding.is_numeric] + [target or ""] * is_classes
    columns = read_columns(path, texts)
    missing = [encoding.name for encoding in encodings if encoding.name not in columns]
    if missing:
        raise DataError(f"{path} must have the columns that the model was trained on, missing: {', '.join(missing)}")
    features = [feature for encoding in encodings for feature in _features(columns[encoding.name], encoding, path)]
    samples = np.stack(features, axis=1).astype(np.float32)
    truth = columns.get(target or "")
    return [str(row) for row in range(1, len(samples) + 1)], samples, _targets(truth, manifest, path)


def _features(column: Column, encoding: ColumnEncoding, path: Path) -> list[Array]:
    where = f"column {column.name!r} of {path}"
    if encoding.is_numeric and not column.is_numeric:
        raise DataError(f"a column that held numbers at training must hold numbers, however {where} holds texts")
    if column.missing.any() and not encoding.marks_missing:
        row = int(np.flatnonzero(column.missing)[0]) + 1
        raise DataError(f"no value was missing at training, so none may be, however one is in row {row}, {where}")
    return list(encoding.features(column.values, column.missing))


def _targets(truth: Column | None, manifest: Manifest, path: Path) -> Array | None:
    """Labels or values, if every row has one."""
    if truth is None or truth.missing.any():
        return None
    if manifest.task == "regression":
        if not truth.is_numeric:
            raise DataError(f"the target of a regression must be a number, got texts in {truth.name!r} of {path}")
        return truth.values
    known = {name: label for label, name in enumerate(manifest.target.class_names or ())}
    names = [_class_name(text) for text in truth.values]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise DataError(f"classes must be those of training, got {unknown!r} in column {truth.name!r} of {path}")
    return np.array([known[name] for name in names], np.int64)


def _class_name(text: str) -> str:
    """What a class was called at training: whole numbers are written without a point."""
    try:
        return str(int(float(text))) if float(text) == int(float(text)) else text
    except (ValueError, OverflowError):
        return text
