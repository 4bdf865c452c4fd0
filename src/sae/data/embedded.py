"""Data sets that come with scikit-learn and need no download."""

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.config.run import DataConfig
from sae.core.task import Classification
from sae.data.dataset import ColumnEncoding, Dataset, Normalisation, split_up, standardisation, standardised_regression
from sae.data.splits import split_indices

DIGITS_NORMALISATION = Normalisation(mean=(77.8,), std=(95.9,))
"""Mean and standard deviation of all pixels of the digits, in [0, 255]."""
DIGITS_FILE = "datasets/data/digits.csv.gz"
"""File in scikit-learn's package: a row for each digit, with 64 numbers from 0 to 16 and the label."""


def read_digits(config: DataConfig, _seed: int) -> Dataset:
    """Read the handwritten digits; each of the 8×8 pixels becomes 2×2, so that every backbone fits."""
    values = _digits()
    small = np.round(values[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # (sample, 8, 8), from 0…16
    images = small.repeat(2, axis=1).repeat(2, axis=2)[:, None]
    labels = values[:, -1].astype(np.int64)
    parts = split_indices(len(labels), config.split_seed, labels)
    return split_up("digits", images, labels, Classification(10), DIGITS_NORMALISATION, parts, tuple("0123456789"))


@cache
def _digits() -> NDArray[np.float64]:
    """Return the digits of scikit-learn, (sample, pixel and label), from its file if that is in its usual place.

    Importing scikit-learn for them would take as long as importing torch. A process reads them once.
    """
    package = find_spec("sklearn")
    file = Path(package.origin).parent / DIGITS_FILE if package and package.origin else None
    if file is not None and file.is_file():
        with gzip.open(file, "rt", encoding="ascii") as lines:
            return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.hstack([bunch.data, bunch.target[:, None]])


def read_diabetes(config: DataConfig, _seed: int) -> Dataset:
    """Read disease progression after a year; features and targets are standardised on the training split."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    inputs, targets = bunch.data.astype(np.float64), bunch.target.astype(np.float64)
    parts = split_indices(len(targets), config.split_seed)
    task = standardised_regression(targets[parts[0]], "the train split of diabetes")
    medians = np.median(inputs[parts[0]], axis=0).tolist()
    columns = tuple(ColumnEncoding(name, median) for name, median in zip(bunch.feature_names, medians, strict=True))
    return split_up("diabetes", inputs, targets, task, standardisation(inputs, parts[0]), parts, columns=columns)
