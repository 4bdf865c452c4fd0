"""A data set of noise, for benchmarks in which only its size matters."""

import numpy as np

from sae.core.task import Classification, DataSpec
from sae.data.dataset import Dataset, Normalisation, Split


def noise(shape: tuple[int, int, int], num_classes: int, num_samples: int) -> Dataset:
    """Return random pixels in the shape of images, with random labels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (num_samples, *shape), dtype=np.uint8)
    split = Split(images, rng.integers(0, num_classes, num_samples))
    normalisation = Normalisation((127.0,) * shape[0], (74.0,) * shape[0])
    return Dataset("noise", DataSpec(shape, Classification(num_classes)), normalisation, split, split, split)
