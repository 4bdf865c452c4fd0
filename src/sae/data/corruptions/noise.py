"""Noise in every value of an image, independent between its pixels and colours.

Here and in the modules beside it a corruption takes images in [0, 1], (sample, 3, height,
width), the generators of these images if it is random, and its constants; what leaves [0, 1] is
clipped later.
"""

import numpy as np

from sae.data.corruptions.operations import Floats, ImageGenerators


def gaussian_noise(images: Floats, generators: ImageGenerators, std: float) -> Floats:
    """Electronic noise, of the same size everywhere: x + N(0, std)."""
    noise = generators.normal(*images.shape[1:])
    noise *= np.float32(std)
    noise += images
    return noise


def shot_noise(images: Floats, generators: ImageGenerators, photons: float) -> Floats:
    """Noise of counting light: `photons` arrive at a white value on average, and Poisson many in truth."""
    return generators.poisson(images * np.float32(photons)) / np.float32(photons)


def impulse_noise(images: Floats, generators: ImageGenerators, fraction: float) -> Floats:
    """Salt and pepper: a fraction of the values is lost, half to 0 and half to 1."""
    lots = generators.uniform(*images.shape[1:])
    noisy = np.where(lots < fraction / 2, np.float32(0), images)
    noisy[lots >= 1 - fraction / 2] = 1
    return noisy


def speckle_noise(images: Floats, generators: ImageGenerators, std: float) -> Floats:
    """Noise that grows with the light: x + x·N(0, std)."""
    noise = generators.normal(*images.shape[1:])
    noise *= np.float32(std)
    noise *= images
    noise += images
    return noise
