"""What a data set holds, in numbers."""

from typing import Any

import numpy as np

from sae.core.task import Classification
from sae.data.dataset import Dataset, Split


def summarise(dataset: Dataset) -> dict[str, Any]:
    """Shape, task, classes and, for each split, its samples and how their targets are spread."""
    task = dataset.spec.task
    is_classification = isinstance(task, Classification)
    return {
        "name": dataset.name,
        "task": "classification" if is_classification else "regression",
        "shape": list(dataset.spec.shape),
        "classes": list(class_titles(dataset)),
        "normalisation": {"mean": list(dataset.normalisation.mean), "std": list(dataset.normalisation.std)},
        "splits": {name: _describe(dataset.split(name), dataset) for name in ("train", "val", "test")},
    }


def class_titles(dataset: Dataset) -> tuple[str, ...]:
    """Names of the classes, or their numbers; none for regression."""
    task = dataset.spec.task
    if not isinstance(task, Classification):
        return ()
    return dataset.class_names or tuple(str(label) for label in range(task.num_classes))


def first_of_each_class(dataset: Dataset, most: int = 80, most_per_class: int = 8) -> tuple[Any, list[str]]:
    """Some training images (image, channel, height, width) and their titles, as many of each class or level."""
    targets, titles = dataset.train.targets, class_titles(dataset)
    values = np.unique(targets)[:most]
    per_class = max(1, min(most_per_class, most // len(values)))
    chosen = [rows for value in values for rows in np.flatnonzero(targets == value)[:per_class]]
    names = [titles[targets[row]] if titles else f"{targets[row]:g}" for row in chosen]
    return dataset.train.inputs[np.array(chosen)], names


def _describe(split: Split, dataset: Dataset) -> dict[str, Any]:
    task = dataset.spec.task
    if isinstance(task, Classification):
        counts = np.bincount(split.targets, minlength=task.num_classes)
        return {"samples": len(split), "per_class": counts.tolist()}
    values = split.targets.astype(np.float64)
    spread = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
    return {"samples": len(split), "targets": {key: float(value) for key, value in spread.items()}}
