"""Checks of the samples of a data set, before anything is trained on them."""

from typing import TYPE_CHECKING

import numpy as np

from sae.core.errors import DataError
from sae.core.task import DataSpec, num_targets

if TYPE_CHECKING:
    from sae.data.dataset import Array, Dataset, Split

ROWS_AT_ONCE = 4096
"""Samples that are processed at once, so that a large set need not be in memory."""


def check_split(split: "Split", spec: DataSpec, where: str) -> None:
    """Refuse a split that cannot be trained on, and name the first wrong sample."""
    if not len(split):
        raise DataError(f"every split must hold samples, but {where} is empty")
    if len(split.inputs) != len(split.targets):
        raise DataError(f"{where} must have one target for each sample, got {len(split.inputs)} and {len(split)}")
    if split.inputs.shape[1:] != spec.shape:
        raise DataError(f"samples must have shape {spec.shape}, got {split.inputs.shape[1:]} in {where}")
    several = num_targets(spec.task)
    if split.targets.shape[1:] != (() if several is None else (several,)):
        wanted = "one number" if several is None else f"{several} numbers"
        raise DataError(f"targets must be {wanted} for each sample, got shape {split.targets.shape} in {where}")
    if np.issubdtype(split.inputs.dtype, np.floating):
        for start in range(0, len(split), ROWS_AT_ONCE):
            _check_finite(split.inputs[start : start + ROWS_AT_ONCE], where, start)
    spec.task.check_targets(split.targets, where)


def _check_finite(inputs: "Array", where: str, start: int) -> None:
    wrong = np.argwhere(~np.isfinite(inputs))
    if len(wrong):
        sample, *position = wrong[0].tolist()
        raise DataError(
            f"inputs must be finite, got {inputs[tuple(wrong[0])]} in sample {start + sample} at {position} "
            f"of {where}: remove or impute such values"
        )


def check_sizes(dataset: "Dataset") -> None:
    """Refuse numbers in float64 that do not fit into float32 after standardisation, as a network needs them."""
    axes = (-1, *[1] * (len(dataset.spec.shape) - 1))
    mean, std = (np.reshape(each, axes) for each in (dataset.normalisation.mean, dataset.normalisation.std))
    std = np.where(np.isfinite(std), std, 0.0)
    inputs = [each.inputs for each in (dataset.train, dataset.val, dataset.test) if each.inputs.dtype == np.float64]
    for samples, start in ((each, start) for each in inputs for start in range(0, len(each), ROWS_AT_ONCE)):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            prepared = ((samples[start : start + ROWS_AT_ONCE] - mean) / std).astype(np.float32)
        wrong = np.argwhere(~np.isfinite(prepared))
        if len(wrong):
            owners = [column.name for column in dataset.columns or () for _ in range(column.num_features)]
            owner = f"column {owners[wrong[0, -1]]!r} of " if owners else ""
            raise DataError(
                f"numbers must fit into float32 after standardisation, but {owner}{dataset.name} has some that are too "
                f"large: correct or remove them"
            )
