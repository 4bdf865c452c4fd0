"""Samples of a run's test split for a report: pictures, deviating columns, and numbers to divide them by."""

import base64
import io
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sae.config.run import RunConfig
from sae.core.errors import SaeError
from sae.data.binding import Binding, load_bound
from sae.data.dataset import Array, ColumnEncoding, Dataset, class_titles
from sae.records.predictions import SplitPredictions
from sae.records.run import RunRecord

Floats = NDArray[np.float64]
LARGEST_SIDE = 64
"""Pixels of an embedded picture; larger images are made smaller."""
DATE_PARTS = ("year", "month", "weekday", "days")
MOST_COLUMNS = 3
"""Deviating columns that are named of a sample."""


@dataclass(frozen=True)
class TestSamples:
    """The test split that a run was measured on.

    Attributes:
        dataset: The data.
        class_names: Of the classes; empty for regression.
    """

    dataset: Dataset
    class_names: tuple[str, ...]

    @property
    def are_images(self) -> bool:
        """Whether samples are pictures of 1 or 3 channels."""
        shape = self.dataset.spec.shape
        return len(shape) == 3 and shape[0] in (1, 3)

    @property
    def are_rows(self) -> bool:
        """Whether samples are rows of a table."""
        return len(self.dataset.spec.shape) == 1

    def picture(self, index: int) -> str:
        """Return a sample as the address of a PNG picture that holds the picture itself."""
        pixels = self.dataset.test.inputs[np.array([index])][0]
        return png_address(pixels)

    def deviations(self, index: int) -> str:
        """Name the columns in which a sample is farthest from the training mean, `age +3.1 σ, height −2.0 σ`."""
        z = self._scaled(self.dataset.test.inputs[np.array([index])].astype(np.float64))[0]
        order = np.argsort(-np.abs(z), kind="stable")[:MOST_COLUMNS]
        names = feature_names(self.dataset)
        return ", ".join(f"{names[place]} {z[place]:+.1f} σ".replace("-", "−") for place in order)

    def numbers(self) -> dict[str, Floats]:
        """Return numbers of each sample to cut the split by: brightness and contrast, or the columns."""
        inputs = self.dataset.test.inputs[:].astype(np.float64)
        if self.are_images:
            flat = inputs.reshape(len(inputs), -1)
            return {"brightness": flat.mean(axis=1), "contrast": flat.std(axis=1)}
        if self.are_rows:
            return dict(zip(feature_names(self.dataset), inputs.T, strict=True))
        return {}

    def _scaled(self, inputs: Floats) -> Floats:
        found: Floats = (inputs - np.array(self.dataset.normalisation.mean)) / np.array(self.dataset.normalisation.std)
        return found


def png_address(pixels: Array) -> str:
    """Return an image, (channel, height, width), as a data URI of a PNG; floats are stretched to their own range."""
    values = pixels.astype(np.float64)
    if pixels.dtype != np.uint8:
        low, high = values.min(), values.max()
        values = (values - low) / (high - low or 1.0) * 255
    shown = values.round().clip(0, 255).astype(np.uint8).transpose(1, 2, 0)
    image = Image.fromarray(shown[:, :, 0] if shown.shape[2] == 1 else shown)
    if max(image.size) > LARGEST_SIDE:
        image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    content = io.BytesIO()
    image.save(content, format="png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def feature_names(dataset: Dataset) -> list[str]:
    """Return a name for each feature of a table: its column, with the category or what of a date it is."""
    if dataset.columns is None:
        return [f"feature {index}" for index in range(dataset.spec.shape[0])]
    return [name for column in dataset.columns for name in _names(column)]


def _names(column: ColumnEncoding) -> list[str]:
    own = [f"{column.name} ({part})" for part in DATE_PARTS] if column.is_date else [column.name] * column.is_numeric
    categories = [f"{column.name} is {category}" for category in column.categories]
    return [*own, *categories, *([f"{column.name} is missing"] if column.marks_missing else [])]


def read_samples(record: RunRecord, config: RunConfig, predicted: SplitPredictions) -> TestSamples | str:
    """Read the test samples that a run has predicted, or say why they cannot be read today."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = load_bound(config.data, config.seed, Binding.read(record))
    except (SaeError, ModuleNotFoundError, OSError) as error:
        return str(error)
    if not np.array_equal(dataset.test.targets, predicted.targets):
        return "the data have changed since the run predicted them"
    return TestSamples(dataset, class_titles(dataset))
