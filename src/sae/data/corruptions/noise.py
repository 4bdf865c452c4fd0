"""Noise corruptions, independent for each pixel and colour.

Here and in the other families, a corruption takes images in [0, 1], (sample, 3, height, width),
their generators if it is random, and its constants. Values outside [0, 1] are clipped later.
"""

import numpy as np

from sae.data.corruptions.operations import ImageGenerators
from sae.data.dataset import Floats


def gaussian_noise(images: Floats, generators: ImageGenerators, std: float) -> Floats:
    """Add electronic noise of the same strength everywhere: x + N(0, std)."""
    noise = generators.normal(*images.shape[1:])
    noise *= np.float32(std)
    noise += images
    return noise


def shot_noise(images: Floats, generators: ImageGenerators, photons: float) -> Floats:
    """Add the noise of counting photons: a white value receives Poisson(`photons`) of them."""
    return generators.poisson(images * np.float32(photons)) / np.float32(photons)


def impulse_noise(images: Floats, generators: ImageGenerators, fraction: float) -> Floats:
    """Add salt and pepper: set a fraction of the values to 0 or 1, half each."""
    draws = generators.uniform(*images.shape[1:])
    noisy = np.where(draws < fraction / 2, np.float32(0), images)
    noisy[draws >= 1 - fraction / 2] = 1
    return noisy


def speckle_noise(images: Floats, generators: ImageGenerators, std: float) -> Floats:
    """Add noise that grows with brightness: x + x·N(0, std)."""
    noise = generators.normal(*images.shape[1:])
    noise *= np.float32(std)
    noise *= images
    noise += images
    return noise
