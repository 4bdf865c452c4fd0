"""Random variation of training images, on the whole batch at once, before normalisation."""

import numpy as np

from sae.data.dataset import Array


def random_crop(images: Array, padding: int, generator: np.random.Generator) -> Array:
    """Pad each image with black and cut it back to its size at a random place.

    Args:
        images: (batch, channel, height, width).
        padding: Pixels on each side.
        generator: Where the places come from.
    """
    batch, channels, height, width = images.shape
    padded = np.zeros((batch, channels, height + 2 * padding, width + 2 * padding), images.dtype)
    padded[:, :, padding : padding + height, padding : padding + width] = images
    top, left = generator.integers(0, 2 * padding + 1, (2, batch))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    cropped: Array = windows[np.arange(batch), :, top, left]  # 7 × faster than torch's indexing
    return cropped


def random_flip(images: Array, generator: np.random.Generator) -> Array:
    """Mirror each image, left to right, with probability one half.

    Args:
        images: (batch, channel, height, width).
        generator: Where the coins come from.
    """
    chosen = generator.random(len(images)) < 0.5
    flipped = images.copy()
    flipped[chosen] = images[chosen][..., ::-1]
    return flipped
