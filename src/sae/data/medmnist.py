"""Sets of MedMNIST from their published files."""

import numpy as np

from sae.config.run import DataConfig
from sae.core.task import Classification, DataSpec, Regression, Task
from sae.data.dataset import Array, Dataset, Normalisation, Split
from sae.data.images import normalisation_of
from sae.data.locations import find_published
from sae.data.medmnist_table import MEDMNIST, PADDED_SIZE, MedMnistSet
from sae.data.npz import decoded_npz, frame_of


def read_medmnist(config: DataConfig, _seed: int) -> Dataset:
    """A set with its official splits; images of 28² get a black frame to 32²."""
    facts = MEDMNIST[config.name]
    size = config.size or PADDED_SIZE
    file = facts.files(config.name)[size]
    splits = decoded_npz(find_published(file, config.name), file.md5)
    num_classes = len(facts.class_names)
    is_regression = facts.task == "regression"
    task: Task = Regression() if is_regression else Classification(num_classes)
    train, val, test = (
        Split(
            split.images, _levels(split.labels, num_classes) if is_regression else split.labels[:, 0].astype(np.int64)
        )
        for split in (splits["train"], splits["val"], splits["test"])
    )
    return Dataset(
        config.name,
        DataSpec(train.inputs.shape[1:], task),
        _published_normalisation(facts, size) or normalisation_of(splits["train"].moments),
        train,
        val,
        test,
        None if is_regression else facts.class_names,
        frame=frame_of(size, size),
        label_scale=num_classes - 1 if is_regression else 1,
    )


def _levels(labels: Array, num_levels: int) -> Array:
    """Grades 0, 1, … as values in [0, 1]."""
    return (labels[:, 0] / (num_levels - 1)).astype(np.float32)


def _published_normalisation(facts: MedMnistSet, size: int) -> Normalisation | None:
    """The paper's constants, from [0, 1] to the units of pixels; it fixes them for 28² only."""
    if facts.mean is None or facts.std is None or size != PADDED_SIZE:
        return None
    return Normalisation(tuple(255 * value for value in facts.mean), tuple(255 * value for value in facts.std))
