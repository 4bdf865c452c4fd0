"""The normalisation of images by given means and deviations, in place of those of the training images."""

from dataclasses import replace

from sae.config.run import DataConfig
from sae.core.errors import ConfigError
from sae.data.dataset import Dataset, Normalisation

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Means and deviations of the channels of ImageNet's images, whose pixels go from 0 to 1."""


def normalised(dataset: Dataset, config: DataConfig) -> Dataset:
    """Return a data set whose images are normalised as the settings say."""
    chosen = dataset.normalisation
    if config.normalisation != "own":
        chosen = _scaled(dataset, *(IMAGENET if config.normalisation == "imagenet" else config.normalisation))
    if config.standardise == "image":
        chosen = replace(chosen, each_image=True)
    return replace(dataset, normalisation=chosen)


def _scaled(dataset: Dataset, means: tuple[float, ...], deviations: tuple[float, ...]) -> Normalisation:
    """Return means and deviations of pixels from 0 to 1 in the units of the pixels of a data set."""
    channels = dataset.spec.shape[0]
    if dataset.depth == 32:
        raise ConfigError(
            f"data.normalisation must be own for pixels without a known scale, but those of {dataset.name} are floats: "
            "save the images with 8 or 16 bits per channel"
        )
    if not len(means) == len(deviations) == channels:
        raise ConfigError(
            f"data.normalisation must have a mean and a deviation for each of {channels} channels of {dataset.name}, "
            f"got {len(means)} and {len(deviations)}"
        )
    largest = 2**dataset.depth - 1
    return Normalisation(tuple(mean * largest for mean in means), tuple(std * largest for std in deviations))
