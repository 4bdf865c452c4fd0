"""Digital corruptions: contrast, saturation, elastic warping, pixelation and JPEG."""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image

from sae.data.corruptions.operations import ImageGenerators, gaussian_filter, to_bytes, to_colours, warp
from sae.data.dataset import Floats


def contrast(images: Floats, factor: float) -> Floats:
    """Move every colour towards its mean over the image."""
    mean = images.mean(axis=(2, 3), keepdims=True)
    flatter: Floats = (images - mean) * np.float32(factor) + mean
    return flatter


def saturate(images: Floats, factor: float, shift: float) -> Floats:
    """Scale and shift the saturation in HSV, keeping hue and value.

    Gray has no hue; as usual, its hue counts as red. So a gray image does not change without a
    shift, and turns reddish with one.
    """
    value = images.max(axis=1, keepdims=True)
    distance = value - images  # 0 for the largest colour, and value · saturation for the smallest
    largest = distance.max(axis=1, keepdims=True)
    is_gray = largest == 0
    red_hue = np.array([0, 1, 1], np.float32)[:, None, None]
    hue = np.where(is_gray, red_hue, distance / np.where(is_gray, 1, largest))
    saturation = largest / np.where(value == 0, 1, value)
    changed = (saturation * np.float32(factor) + np.float32(shift)).clip(0, 1)
    saturated: Floats = value * (1 - hue * changed)
    return saturated


def elastic_transform(
    images: Floats, generators: ImageGenerators, strength: float, smooth_std: float, corner_shift: float
) -> Floats:
    """Shift three corners of a centre square, then every pixel by a smooth random field.

    Args:
        images: (sample, 3, height, width).
        generators: One per sample.
        strength: Factor of the field, in units of the image's shorter side, like the next two.
        smooth_std: Standard deviation of the Gaussian that smooths uniform noise into the field.
        corner_shift: Largest shift of a corner along an axis.
    """
    height, width = images.shape[2:]
    side = min(height, width)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    shifts = (generators.uniform(3, 2) * 2 - 1) * np.float32(corner_shift * side)
    matrices = affine_from_corners(height, width, shifts)  # (sample, 2, 3)
    a, b = (matrices[:, axis, :, None, None] for axis in (0, 1))
    images = warp(images, a[:, 0] * y + a[:, 1] * x + a[:, 2], b[:, 0] * y + b[:, 1] * x + b[:, 2])
    if strength == 0:
        return images
    field = gaussian_filter(generators.uniform(2, height, width) * 2 - 1, smooth_std * side, truncate=3)
    field *= np.float32(strength * side)
    return warp(images, y + field[:, 0], x + field[:, 1])


def affine_from_corners(height: int, width: int, shifts: Floats) -> Floats:
    """Return the affine map from a warped image back to the original, (sample, 2, 3), rows before columns.

    Args:
        height: Height of the images.
        width: Width of the images.
        shifts: Shifts of three corners of the centre square in pixels, (sample, corner, 2).
    """
    middle = np.array([height // 2, width // 2], np.float64)
    half = max(min(height, width) // 3, 1)
    corners = middle + half * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = np.concatenate([corners + shifts, np.ones((len(shifts), 3, 1))], axis=2)  # (sample, corner, 3)
    back: Floats = np.linalg.solve(moved, np.broadcast_to(corners, shifts.shape)).swapaxes(1, 2).astype(np.float32)
    return back


def pixelate(images: Floats, fraction: float) -> Floats:
    """Shrink to a fraction of the size and enlarge again, both by averaging boxes."""
    height, width = images.shape[2:]
    small = (max(int(width * fraction), 1), max(int(height * fraction), 1))

    def shrink_and_enlarge(picture: Image.Image) -> Image.Image:
        return picture.resize(small, Image.Resampling.BOX).resize((width, height), Image.Resampling.BOX)

    return _edit_pictures(images, shrink_and_enlarge)


def jpeg_compression(images: Floats, quality: float) -> Floats:
    """Save as JPEG and read back."""

    def save_and_read(picture: Image.Image) -> Image.Image:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=int(quality))
        return Image.open(buffer)

    return _edit_pictures(images, save_and_read)


def _edit_pictures(images: Floats, edit: Callable[[Image.Image], Image.Image]) -> Floats:
    """Edit each image with Pillow."""
    pictures = to_bytes(images).transpose(0, 2, 3, 1)
    edited = np.stack([np.asarray(edit(Image.fromarray(np.ascontiguousarray(picture)))) for picture in pictures])
    return to_colours(edited.transpose(0, 3, 1, 2))
