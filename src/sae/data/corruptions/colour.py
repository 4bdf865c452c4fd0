"""Between bytes and the [0, 1] of colour images, and the brightness of a colour."""

import numpy as np
from numpy.typing import NDArray

from sae.data.corruptions.generators import Floats

RED_SHARE, GREEN_SHARE, BLUE_SHARE = 0.299, 0.587, 0.114
"""How bright a colour looks, by ITU-R BT.601: the standard luma, also of JPEG and Pillow."""


def luma(images: Floats) -> Floats:
    """Gray images as bright as these colours, (sample, 1, height, width).

    Args:
        images: (sample, 3, height, width).
    """
    red, green, blue = (images[:, channel : channel + 1] for channel in range(3))
    gray: Floats = red * np.float32(RED_SHARE) + green * np.float32(GREEN_SHARE) + blue * np.float32(BLUE_SHARE)
    return gray


def to_colours(images: NDArray[np.uint8]) -> Floats:
    """Gray or colour bytes as colours in [0, 1], (sample, 3, height, width)."""
    sample, _, height, width = images.shape
    colours = np.empty((sample, 3, height, width), np.float32)
    np.divide(images, np.float32(255), out=colours)
    return colours


def to_bytes(colours: Floats) -> NDArray[np.uint8]:
    """The nearest bytes; what lies outside [0, 1] is clipped.

    The benchmark cuts fractions off, which darkens even an image that a corruption leaves alone.
    """
    scaled = colours * np.float32(255)
    np.rint(scaled, out=scaled)
    return scaled.clip(0, 255, out=scaled).astype(np.uint8)
