"""Labels in `.npz` files: whole numbers, real numbers, or texts that name classes."""

from collections.abc import Mapping

import numpy as np

from sae.core.errors import DataError
from sae.core.task import Classification, Task
from sae.data.dataset import Array, standardised_regression
from sae.data.npz_layout import ALL


def named_targets(
    raw: Mapping[str, Array], task: str | None, places: Mapping[str, str], known: tuple[str, ...] | None
) -> tuple[dict[str, Array], tuple[str, ...] | None]:
    """Return the targets of each part, and the names of the classes if labels are texts.

    Args:
        raw: Labels of each part.
        task: The task of a run's settings.
        places: Name and file of the labels of each part.
        known: Names of the classes of an earlier reading; by default those of the training split.
    """
    is_text = {array.dtype.kind == "U" for array in raw.values()}
    if task != "classification" or True not in is_text:
        return {part: targets_of(array, task, places[part]) for part, array in raw.items()}, None
    if False in is_text:
        raise DataError(f"labels must be texts in all splits or in none, got both in {', '.join(places.values())}")
    names = np.unique(raw["train" if "train" in raw else ALL] if known is None else known)
    for part, array in raw.items():
        unknown = np.flatnonzero(~np.isin(array, names))
        if array.ndim != 1 or unknown.size:
            given = repr(str(array[unknown[0]])) if array.ndim == 1 else f"shape {array.shape}"
            raise DataError(
                f"there must be one label of the training split for each sample, got {given} in {places[part]}"
            )
    return {part: np.searchsorted(names, array).astype(np.int64) for part, array in raw.items()}, tuple(names.tolist())


def task_of(targets: Array, task: str | None, class_names: tuple[str, ...] | None, where: str) -> Task:
    """Return the task that the targets of the training samples define.

    Args:
        targets: (sample,).
        task: The task of a run's settings.
        class_names: Names of the classes, if they have names.
        where: Name and file of the labels.
    """
    if class_names is not None:
        return Classification(len(class_names))
    return classes_of(targets, where) if task == "classification" else standardised_regression(targets, where)


def classes_of(labels: Array, where: str) -> Classification:
    """Return the classification task that these training labels define."""
    present = np.unique(labels)
    if len(present) < 2:
        raise DataError(f"there must be at least 2 classes, got {present.tolist()} in {where}")
    return Classification(int(present[-1]) + 1)


def targets_of(labels: Array, task: str | None, where: str) -> Array:
    """Return the targets of the samples, (sample,); refuse labels that do not suit the task."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"there must be one label for each sample, got shape {labels.shape} in {where}")
    is_integer = np.issubdtype(labels.dtype, np.integer)
    if task == "classification" and not is_integer:
        raise DataError(
            f"labels must be integers for classification, got {labels.dtype} in {where}: use --task regression?"
        )
    if not is_integer and not np.issubdtype(labels.dtype, np.floating):
        raise DataError(f"targets must be numbers, got {labels.dtype} in {where}")
    return labels.astype(np.int64 if task == "classification" else np.float64)
