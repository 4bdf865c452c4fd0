"""Linear filters on a batch of images: Gaussian, any small kernel, a line of its own angle per image."""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from sae.data.corruptions.generators import Floats


def gaussian_filter(images: Floats, std: float, truncate: float = 4.0) -> Floats:
    """Smooth the last two axes; outside lies the nearest pixel.

    Args:
        images: (..., height, width).
        std: In pixels.
        truncate: Where the kernel ends, in standard deviations.
    """
    for axis in (-1, -2):
        images = gaussian_filter1d(images, std, axis=axis, mode="nearest", truncate=truncate)
    return images


def disk_kernel(radius: float, alias_std: float) -> NDArray[np.float64]:
    """A disk of this radius, its rim softened by a 3×3 Gaussian; a square with odd side, summing to 1."""
    reach = int(radius) + 1
    offsets = np.arange(-reach, reach + 1)
    disk = (offsets[:, None] ** 2 + offsets**2 <= radius**2).astype(np.float64)
    tap = np.exp(-0.5 / alias_std**2)
    for axis in (0, 1):  # the disk does not reach the rim of its square, so that rolling loses nothing
        disk = disk + tap * (np.roll(disk, 1, axis) + np.roll(disk, -1, axis))
    kernel: NDArray[np.float64] = disk / disk.sum()
    return kernel


def convolve(images: Floats, kernel: NDArray[np.float64]) -> Floats:
    """Convolve the last two axes with one kernel that is its own mirror image.

    Adds up shifted copies of the whole batch; outside lies the mirror image.

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


def smear(images: Floats, radius: int, std: float, angles: Floats) -> Floats:
    """Blur each image along a line that starts at the pixel: half a Gaussian, as from a moving camera.

    The kernel has 2·radius + 1 taps at whole pixels, as ImageMagick's motion blur, which made
    the benchmark. Outside lies the nearest pixel.

    Args:
        images: (sample, channel, height, width).
        radius: In pixels.
        std: Of the Gaussian, in pixels.
        angles: Direction of the line in degrees, clockwise from the right, (sample,).
    """
    height, width = images.shape[2:]
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-0.5 * (steps / std) ** 2)
    weights /= weights.sum()
    steps = steps[weights > 1e-5]  # the tail cannot move a pixel of 8 bits
    down, right = line_offsets(steps, angles)
    reach = int(steps[-1])
    padded = np.pad(images, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    samples = np.arange(len(images))
    total = np.zeros_like(images)
    for step in steps:
        total += np.float32(weights[step]) * windows[samples, :, reach + down[:, step], reach + right[:, step]]
    return total


def line_offsets(steps: NDArray[np.int64], angles: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pixels nearest to a line, as rows down and columns right of its start, each (sample, step)."""
    radians = np.deg2rad(angles.astype(np.float64))[:, None]
    down, right = np.sin(radians) * steps, np.cos(radians) * steps
    return np.rint(down).astype(np.int64), np.rint(right).astype(np.int64)
