"""Random textures that weather is made of, one for each image of a batch."""

import numpy as np

from sae.data.corruptions.generators import Floats, ImageGenerators
from sae.data.corruptions.warps import warp

ICE_SHADOW, ICE_LIGHT = (0.12, 0.22, 0.36), (0.93, 0.97, 1.0)
"""Red, green and blue of the thinnest and of the thickest frost."""


def plasma(generators: ImageGenerators, height: int, width: int, decay: float) -> Floats:
    """A plasma fractal in [0, 1] by diamond-square on a torus, (sample, height, width).

    Each step halves the mesh and divides the random part by decay². (The benchmark divides
    both a range and the factor before it by the decay.)
    """
    side = 1 << (max(height, width) - 1).bit_length()
    noise = generators.uniform(side, side) * 2 - 1
    field = np.zeros_like(noise)
    mesh, scale = side, np.float32(1)
    while mesh > 1:
        half = mesh // 2
        corners = field[:, ::mesh, ::mesh]
        below = corners + np.roll(corners, -1, axis=1)
        centres = (below + np.roll(below, -1, axis=2)) / 4 + scale * noise[:, half::mesh, half::mesh]
        field[:, half::mesh, half::mesh] = centres
        beside = corners + np.roll(corners, -1, axis=2) + centres + np.roll(centres, 1, axis=1)
        field[:, ::mesh, half::mesh] = beside / 4 + scale * noise[:, ::mesh, half::mesh]
        below += centres + np.roll(centres, 1, axis=2)
        field[:, half::mesh, ::mesh] = below / 4 + scale * noise[:, half::mesh, ::mesh]
        mesh, scale = half, scale / np.float32(decay**2)
    return stretch(field)[:, :height, :width]


def frost_crystals(generators: ImageGenerators, height: int, width: int) -> Floats:
    """Frost on a window: needles of ice in three directions 60° apart, bluish white, (sample, 3, height, width).

    The benchmark crops photographs of frost. This texture stands in for them: ridges of
    stretched noise at two scales, thicker where a smooth field says so.
    """
    angles = generators.uniform() * np.float32(np.pi)
    cover = _stretched_noise(generators, angles, height, width, length=0.7, breadth=0.5)
    needles = np.zeros_like(cover)
    for scale in (1.0, 0.5):
        for turn in range(3):
            direction = angles + np.float32(turn * np.pi / 3)
            noise = _stretched_noise(generators, direction, height, width, length=0.6 * scale, breadth=0.13 * scale)
            ridge = 1 - np.abs(2 * noise - 1)
            needles = np.maximum(needles, np.float32(0.6 + 0.4 * scale) * ridge**3)
    ice = stretch(needles * (np.float32(0.5) + cover) + np.float32(0.5) * cover)[:, None]
    shadow, light = (np.array(colour, np.float32)[:, None, None] for colour in (ICE_SHADOW, ICE_LIGHT))
    return shadow + ice * (light - shadow)


def stretch(fields: Floats) -> Floats:
    """Shift and scale each field to [0, 1]; one that is flat becomes 0.

    Args:
        fields: (sample, height, width).
    """
    low = fields.min(axis=(1, 2), keepdims=True)
    span = fields.max(axis=(1, 2), keepdims=True) - low
    stretched: Floats = (fields - low) / np.where(span > 0, span, 1)
    return stretched


def _stretched_noise(
    generators: ImageGenerators, angles: Floats, height: int, width: int, *, length: float, breadth: float
) -> Floats:
    """Smooth noise in [0, 1] with grains of this length and breadth, in shorter sides of the image.

    Args:
        generators: One per sample.
        angles: Direction of the grains in radians, (sample,).
        height: Of the result, (sample, height, width).
        width: Of the result.
        length: Of a grain along its direction.
        breadth: Of a grain across.
    """
    side = min(height, width)
    y, x = np.mgrid[:height, :width].astype(np.float32) / np.float32(side)
    cos, sin = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    num_rows, num_columns = (int(3 * max(height, width) / side / grain) + 2 for grain in (breadth, length))
    lattice = generators.uniform(1, num_rows, num_columns)
    along, across = (x * cos + y * sin) / np.float32(length), (y * cos - x * sin) / np.float32(breadth)
    return warp(lattice, across + num_rows / 2, along + num_columns / 2)[:, 0]
