"""Resizing of images to the one size that a network takes, the same in training and prediction."""

import numpy as np
from PIL import Image

from sae.config.run import Fit
from sae.data.dataset import Array

FILTER = Image.Resampling.BILINEAR
"""Averages over all pixels that become one, and never leaves the range of the pixels."""


def resized(image: Array, height: int, width: int, fit: Fit) -> Array:
    """Return an image in this size; one that has it already comes back unchanged.

    Args:
        image: (channel, height, width) in uint8 or float32.
        height: Pixels from top to bottom.
        width: Pixels from left to right.
        fit: `stretch` uses the whole image, and changes its proportions. `pad` uses the whole image in its
            proportions, with black (0) around it. `crop` fills the size in the proportions of the image, and cuts off
            what stands out on both sides.

    Example:
        >>> image = np.full((1, 4, 8), 100, np.uint8)
        >>> resized(image, 4, 4, "pad")[0, :, 0].tolist()
        [0, 100, 100, 0]
    """
    if image.shape[1:] == (height, width):
        return image
    if fit == "stretch":
        return _scaled(image, height, width)
    tall, wide = image.shape[1] / height, image.shape[2] / width
    if fit == "crop":
        scale = min(tall, wide)
        return _scaled(image, height, width, scale * height, scale * width)
    scale = max(tall, wide)
    inner_height = min(height, max(1, round(image.shape[1] / scale)))
    inner_width = min(width, max(1, round(image.shape[2] / scale)))
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    padded = np.zeros((len(image), height, width), image.dtype)
    padded[:, top : top + inner_height, left : left + inner_width] = _scaled(image, inner_height, inner_width)
    return padded


def _scaled(image: Array, height: int, width: int, used_height: float = 0.0, used_width: float = 0.0) -> Array:
    """Scale the middle of an image, by default all of it."""
    top = (image.shape[1] - used_height) / 2 if used_height else 0.0
    left = (image.shape[2] - used_width) / 2 if used_width else 0.0
    box = (left, top, image.shape[2] - left, image.shape[1] - top)
    channels = [
        Image.fromarray(np.ascontiguousarray(channel)).resize((width, height), FILTER, box) for channel in image
    ]
    return np.stack([np.asarray(channel) for channel in channels])
