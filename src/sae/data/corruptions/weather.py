"""Weather corruptions: snow, frost, fog, brightness, and spatter of water or mud."""

import numpy as np

from sae.data.corruptions.operations import ImageGenerators, gaussian_filter, luma, smear, warp, zoom
from sae.data.dataset import Floats, Mask

WATER, MUD = (175 / 255, 238 / 255, 238 / 255), (63 / 255, 42 / 255, 20 / 255)
"""Red, green and blue of the spatter: pale turquoise and brown."""
SOLID_MUD = 0.8
"""Smoothed mud below this thickness is invisible."""
RELIEF_STD = 1.0
"""Standard deviation in pixels of the Gaussian that rounds water drops."""
ICE_SHADOW, ICE_LIGHT = (0.12, 0.22, 0.36), (0.93, 0.97, 1.0)
"""Red, green and blue of the thinnest and the thickest frost."""


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
    """Whiten the image by 1 − mix and add falling flakes.

    Flakes are the peaks of a zoomed Gaussian field, blurred along a line within 45° of upwards.
    They are added a second time, turned by 180°.
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
    """Return a weighted sum of the image and a generated texture of frost; see `frost_crystals`."""
    crystals = frost_crystals(generators, *images.shape[2:])
    return images * np.float32(image_share) + crystals * np.float32(frost_share)


def fog(images: Floats, generators: ImageGenerators, density: float, decay: float) -> Floats:
    """Add a plasma fractal, then scale so that the brightest value of an image stays about the same."""
    height, width = images.shape[2:]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    veiled = images + np.float32(density) * plasma(generators, height, width, decay)[:, None]
    foggy: Floats = veiled * (brightest / (brightest + np.float32(density)))
    return foggy


def brightness(images: Floats, shift: float) -> Floats:
    """Raise the value in HSV, the largest of the three colours, keeping hue and saturation."""
    value = images.max(axis=1, keepdims=True)
    raised = (value + np.float32(shift)).clip(0, 1)
    is_black = value == 0
    brighter: Floats = np.where(is_black, raised, images * (raised / np.where(is_black, 1, value)))
    return brighter


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
    """Put drops on the lens where a smoothed Gaussian field exceeds the threshold: glossy water or opaque mud."""
    field = generators.normal(*images.shape[2:]) * np.float32(std) + np.float32(mean)
    field = gaussian_filter(field, smooth_std)
    if is_mud:
        return _cover_with_mud(images, field > threshold, rim_std=strength)
    return _splash_water(images, np.where(field < threshold, 0, field), strength)


def _splash_water(images: Floats, drops: Floats, strength: float) -> Floats:
    """Add the shine of drops lit from the upper left.

    Args:
        images: (sample, 3, height, width).
        drops: Amount of water, (sample, height, width).
        strength: Strength of the brightest reflection.
    """
    surface = np.pad(gaussian_filter(drops, RELIEF_STD), ((0, 0), (1, 1), (1, 1)), mode="edge")
    slope = surface[:, 2:, 2:] - surface[:, :-2, :-2]
    shine = stretch(drops * stretch(slope)) * np.float32(strength)
    return images + shine[:, None] * np.array(WATER, np.float32)[:, None, None]


def _cover_with_mud(images: Floats, is_wet: Mask, rim_std: float) -> Floats:
    """Cover the image with mud where `is_wet`, (sample, height, width), except at the rims of drops."""
    mud = gaussian_filter(is_wet.astype(np.float32), rim_std)
    mud = np.where(mud < SOLID_MUD, 0, mud)[:, None]
    return images * (1 - mud) + mud * np.array(MUD, np.float32)[:, None, None]


def plasma(generators: ImageGenerators, height: int, width: int, decay: float) -> Floats:
    """Return a plasma fractal in [0, 1], made by diamond-square on a torus, (sample, height, width).

    Each step halves the mesh and divides the random part by decay². (The benchmark divides
    both a range and its factor by the decay, which is the same.)
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
    """Return frost on a window: bluish white needles in three directions 60° apart, (sample, 3, height, width).

    It replaces the benchmark's photographs of frost. The needles are ridges of stretched noise at
    two scales; a smooth random field sets their thickness.
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
    """Shift and scale each field to [0, 1]; a constant field becomes 0.

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
    """Return smooth noise in [0, 1] with elongated grains, (sample, height, width).

    Args:
        generators: One per sample.
        angles: Direction of the grains in radians, (sample,).
        height: Height of the result.
        width: Width of the result.
        length: Length of a grain along its direction, in units of the image's shorter side.
        breadth: Width of a grain across its direction, in the same units.
    """
    side = min(height, width)
    y, x = np.mgrid[:height, :width].astype(np.float32) / np.float32(side)
    cos, sin = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    num_rows, num_columns = (int(3 * max(height, width) / side / grain) + 2 for grain in (breadth, length))
    lattice = generators.uniform(1, num_rows, num_columns)
    along, across = (x * cos + y * sin) / np.float32(length), (y * cos - x * sin) / np.float32(breadth)
    return warp(lattice, across + num_rows / 2, along + num_columns / 2)[:, 0]
