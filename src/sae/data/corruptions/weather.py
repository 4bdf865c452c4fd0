"""Weather: snow, frost, fog, and spatter of water or mud."""

import numpy as np
from numpy.typing import NDArray

from sae.data.corruptions.colour import luma
from sae.data.corruptions.filters import gaussian_filter, smear
from sae.data.corruptions.generators import Floats, ImageGenerators
from sae.data.corruptions.textures import frost_crystals, plasma, stretch
from sae.data.corruptions.warps import zoom

WATER, MUD = (175 / 255, 238 / 255, 238 / 255), (63 / 255, 42 / 255, 20 / 255)
"""Red, green and blue of what spatters: pale turquoise and brown."""
SOLID_MUD = 0.8
"""Mud thinner than this, after its rim is smoothed, does not show."""
RELIEF_STD = 1.0
"""How round drops of water are, in pixels."""


def snow(
    images: Floats,
    generators: ImageGenerators,
    mean: float,
    std: float,
    factor: float,
    threshold: float,
    radius: float,
    smear_std: float,
    mix: float,
) -> Floats:
    """Falling flakes over an image that is whitened by 1 − mix.

    Flakes are the peaks of a zoomed Gaussian field, smeared within 45° of upwards. They are
    added a second time, turned by 180°.
    """
    flakes = generators.normal(1, *images.shape[2:]) * np.float32(std) + np.float32(mean)
    flakes = zoom(flakes, factor)
    flakes = np.where(flakes < threshold, 0, flakes).clip(0, 1)
    flakes = smear(flakes, int(radius), smear_std, generators.uniform() * 90 - 135)
    white = np.maximum(images, luma(images) * np.float32(1.5) + np.float32(0.5))
    whitened = images * np.float32(mix) + white * np.float32(1 - mix)
    snowy: Floats = whitened + flakes + flakes[..., ::-1, ::-1]
    return snowy


def frost(images: Floats, generators: ImageGenerators, image_share: float, frost_share: float) -> Floats:
    """A weighted sum of the image and a texture of frost, which is made here: see `frost_crystals`."""
    crystals = frost_crystals(generators, *images.shape[2:])
    return images * np.float32(image_share) + crystals * np.float32(frost_share)


def fog(images: Floats, generators: ImageGenerators, density: float, decay: float) -> Floats:
    """Add a plasma fractal and scale back, so that an image's brightest value stays about where it was."""
    height, width = images.shape[2:]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    veiled = images + np.float32(density) * plasma(generators, height, width, decay)[:, None]
    foggy: Floats = veiled * (brightest / (brightest + np.float32(density)))
    return foggy


def spatter(
    images: Floats,
    generators: ImageGenerators,
    mean: float,
    std: float,
    smooth_std: float,
    threshold: float,
    strength: float,
    is_mud: float,
) -> Floats:
    """Drops on the lens where a smoothed Gaussian field exceeds the threshold: glossy water or opaque mud."""
    field = generators.normal(*images.shape[2:]) * np.float32(std) + np.float32(mean)
    field = gaussian_filter(field, smooth_std)
    if is_mud:
        return _cover_with_mud(images, field > threshold, rim_std=strength)
    return _splash_water(images, np.where(field < threshold, 0, field), strength)


def _splash_water(images: Floats, drops: Floats, strength: float) -> Floats:
    """Add the shine of drops lit from the upper left.

    Args:
        images: (sample, 3, height, width).
        drops: How much water there is, (sample, height, width).
        strength: Of the brightest reflection.
    """
    surface = np.pad(gaussian_filter(drops, RELIEF_STD), ((0, 0), (1, 1), (1, 1)), mode="edge")
    slope = surface[:, 2:, 2:] - surface[:, :-2, :-2]
    shine = stretch(drops * stretch(slope)) * np.float32(strength)
    return images + shine[:, None] * np.array(WATER, np.float32)[:, None, None]


def _cover_with_mud(images: Floats, is_wet: NDArray[np.bool_], rim_std: float) -> Floats:
    """Hide what lies under drops of mud, (sample, height, width), except at their rims."""
    mud = gaussian_filter(is_wet.astype(np.float32), rim_std)
    mud = np.where(mud < SOLID_MUD, 0, mud)[:, None]
    return images * (1 - mud) + mud * np.array(MUD, np.float32)[:, None, None]
