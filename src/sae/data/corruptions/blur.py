"""Blur corruptions: defocus, frosted glass, motion, zoom and Gaussian."""

import numpy as np
from numpy.typing import NDArray

from sae.data.corruptions.operations import ImageGenerators, gaussian_filter, smear, zoom
from sae.data.dataset import Floats, Indices

ZOOM_STEP = 0.01


def gaussian_blur(images: Floats, std: float) -> Floats:
    """Convolve with a Gaussian."""
    return gaussian_filter(images, std)


def defocus_blur(images: Floats, radius: float, alias_std: float) -> Floats:
    """Convolve with a disk, like a lens out of focus."""
    return convolve(images, disk_kernel(radius, alias_std))


def glass_blur(images: Floats, generators: ImageGenerators, std: float, reach: float, passes: float) -> Floats:
    """Blur, overwrite every pixel by a random neighbour, `passes` times, and blur again.

    On each axis, a neighbour is between `reach` before a pixel and `reach` − 1 behind it. The published code
    was meant to swap the two pixels, but copies one over the other, so the benchmark is a copy.

    Each copy depends on those before it, so there is a loop over pixels; each step copies in all
    images at once. The loop copies pixel numbers, and the colours are looked up once at the end.
    """
    sample, channel, height, width = images.shape
    moves = generators.integers(-int(reach), int(reach) - 1, int(passes), 2, height, width)
    origins = copy_neighbours(moves, int(reach))
    flat = gaussian_filter(images, std).reshape(sample, channel, height * width)
    return gaussian_filter(np.take_along_axis(flat, origins[:, None], axis=2).reshape(images.shape), std)


def copy_neighbours(moves: Indices, reach: int) -> Indices:
    """Return which pixel is where after all copies, made from the last pixel to the first in every pass.

    Pixels less than `reach` from the border stay, so that every neighbour exists.

    Args:
        moves: Rows down and columns right from a pixel to its neighbour, (sample, pass, 2, height, width).
        reach: The largest move.

    Returns:
        The number of the original pixel now at each place, row by row, (sample, height · width).
    """
    sample, passes, _, height, width = moves.shape
    neighbours = np.arange(height * width).reshape(height, width) + moves[:, :, 0] * width + moves[:, :, 1]
    # Pixels first, samples last: each step then reads and writes contiguous rows.
    neighbours = np.ascontiguousarray(neighbours.transpose(1, 2, 3, 0)) * sample + np.arange(sample)
    origins = np.repeat(np.arange(height * width), sample).reshape(height * width, sample)
    flat = origins.reshape(-1)
    for turn in range(passes):
        for row in range(height - 1 - reach, reach - 1, -1):
            for column in range(width - 1 - reach, reach - 1, -1):
                origins[row * width + column] = flat[neighbours[turn, row, column]]
    return np.ascontiguousarray(origins.T)


def motion_blur(images: Floats, generators: ImageGenerators, radius: float, std: float) -> Floats:
    """Blur along a line within 45° of the horizontal."""
    angles = generators.uniform() * 90 - 45
    return smear(images, int(radius), std, angles)


def zoom_blur(images: Floats, limit: float) -> Floats:
    """Average the image and its zooms by 1, 1.01, … up to the limit, like a camera moving closer.

    The benchmark's zooms are those that `np.arange` gives for floats: with some limits, the limit itself is one.
    """
    factors = np.arange(1, limit, ZOOM_STEP)
    total = images.copy()
    for factor in factors:
        total += zoom(images, factor)
    return total / np.float32(len(factors) + 1)


def disk_kernel(radius: float, alias_std: float) -> NDArray[np.float64]:
    """Return a disk whose rim is softened by a 3×3 Gaussian: a square of odd side that sums to 1."""
    reach = int(radius) + 1
    offsets = np.arange(-reach, reach + 1)
    disk = (offsets[:, None] ** 2 + offsets**2 <= radius**2).astype(np.float64)
    tap = np.exp(-0.5 / alias_std**2)
    for axis in (0, 1):  # the disk does not touch the border of its square, so rolling loses nothing
        disk = disk + tap * (np.roll(disk, 1, axis) + np.roll(disk, -1, axis))
    kernel: NDArray[np.float64] = disk / disk.sum()
    return kernel


def convolve(images: Floats, kernel: NDArray[np.float64]) -> Floats:
    """Convolve the last two axes with a symmetric kernel, by adding shifted copies of the whole batch.

    The border is mirrored.

    Args:
        images: (..., height, width).
        kernel: (side, side) with an odd side.
    """
    height, width = images.shape[-2:]
    reach = len(kernel) // 2
    padding = [(0, 0)] * (images.ndim - 2) + [(reach, reach)] * 2
    padded = np.pad(images, padding, mode="reflect")
    total = np.zeros_like(images)
    for top, left in np.argwhere(kernel):
        total += np.float32(kernel[top, left]) * padded[..., top : top + height, left : left + width]
    return total
