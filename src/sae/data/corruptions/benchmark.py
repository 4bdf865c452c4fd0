"""The benchmark: its 19 corruptions, their families, and their constants at five severities.

From Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations" (ICLR 2019). `SMALL` has the constants of CIFAR-10-C, `LARGE` those of
Tiny-ImageNet-C; the constants for images of 224 pixels would destroy such small images.

To add a corruption, write its function, its constants, and its line in `CORRUPTIONS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sae.data.corruptions import blur, digital, noise, weather
from sae.data.corruptions.operations import ImageGenerators
from sae.data.dataset import Floats

Constants = tuple[float, ...]
"""The arguments of a corruption's function at one severity, after images and generators."""

SEVERITIES: Final = (1, 2, 3, 4, 5)
SMALL_SIDE: Final = 32
LARGE_SIDE: Final = 64

_SNOW: Final[tuple[Constants, ...]] = (
    (0.1, 0.2, 1, 0.6, 8, 3),
    (0.1, 0.2, 1, 0.5, 10, 4),
    (0.15, 0.3, 1.75, 0.55, 10, 4),
    (0.25, 0.3, 2.25, 0.6, 12, 6),
    (0.3, 0.3, 1.25, 0.65, 14, 12),
)
_SNOW_MIX_SMALL: Final = (0.95, 0.9, 0.9, 0.85, 0.8)
_SNOW_MIX_LARGE: Final = (0.8, 0.8, 0.7, 0.65, 0.6)
_ZOOM: Final[tuple[Constants, ...]] = ((1.06,), (1.11,), (1.16,), (1.21,), (1.26,))

SMALL: Final[dict[str, tuple[Constants, ...]]] = {
    "gaussian_noise": ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)),
    "shot_noise": ((500,), (250,), (100,), (75,), (50,)),
    "impulse_noise": ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": _ZOOM,
    "snow": tuple((*snow, mix) for snow, mix in zip(_SNOW, _SNOW_MIX_SMALL, strict=True)),
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)),
    "contrast": ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),
    "elastic_transform": ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    "pixelate": ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),
    "jpeg_compression": ((80,), (65,), (58,), (50,), (40,)),
    "speckle_noise": ((0.06,), (0.10,), (0.12,), (0.16,), (0.20,)),
    "gaussian_blur": ((0.4,), (0.6,), (0.7,), (0.8,), (1,)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}

LARGE: Final[dict[str, tuple[Constants, ...]]] = {
    "gaussian_noise": ((0.04,), (0.08,), (0.12,), (0.15,), (0.18,)),
    "shot_noise": ((250,), (100,), (50,), (30,), (15,)),
    "impulse_noise": ((0.01,), (0.02,), (0.05,), (0.08,), (0.14,)),
    "defocus_blur": ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
    "glass_blur": ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
    "motion_blur": ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
    "zoom_blur": _ZOOM,
    "snow": tuple((*snow, mix) for snow, mix in zip(_SNOW, _SNOW_MIX_LARGE, strict=True)),
    "frost": ((1, 0.3), (0.9, 0.4), (0.8, 0.45), (0.75, 0.5), (0.7, 0.55)),
    "fog": ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
    "brightness": ((0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
    "contrast": ((0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
    "elastic_transform": ((0, 0, 0.08), (0.05, 0.3, 0.06), (0.1, 0.08, 0.06), (0.1, 0.03, 0.03), (0.16, 0.03, 0.02)),
    "pixelate": ((0.9,), (0.8,), (0.7,), (0.6,), (0.5,)),
    "jpeg_compression": ((65,), (58,), (50,), (40,), (25,)),
    "speckle_noise": ((0.15,), (0.20,), (0.25,), (0.30,), (0.35,)),
    "gaussian_blur": ((0.5,), (0.75,), (1,), (1.25,), (1.5,)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.6, 0),
        (0.65, 0.1, 0.8, 0.7, 0.6, 0),
        (0.65, 0.3, 1, 0.69, 0.6, 0),
        (0.65, 0.1, 0.7, 0.68, 0.6, 1),
        (0.65, 0.1, 0.5, 0.67, 0.6, 1),
    ),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
}


@dataclass(frozen=True)
class Corruption:
    """A way to damage images, at five severities.

    Attributes:
        name: Its name in the benchmark.
        family: The kind of damage: Noise, Blur, Weather or Digital.
        function: Takes images in [0, 1], (sample, 3, height, width), their generators if it is
            random, and the constants of a severity. Returns images of the same shape, not yet clipped.
        is_random: Whether it draws random numbers, so that the seed matters.
    """

    name: str
    family: str
    function: Callable[..., Floats]
    is_random: bool

    def apply(self, images: Floats, severity: int, generators: ImageGenerators) -> Floats:
        """Corrupt images in [0, 1], (sample, 3, height, width), with the constants for their size."""
        height, width = images.shape[2:]
        constants = constants_of(self.name, severity, height, width)
        if self.is_random:
            return self.function(images, generators, *constants)
        return self.function(images, *constants)


CORRUPTIONS: dict[str, Corruption] = {
    corruption.name: corruption
    for corruption in (
        Corruption("gaussian_noise", "Noise", noise.gaussian_noise, is_random=True),
        Corruption("shot_noise", "Noise", noise.shot_noise, is_random=True),
        Corruption("impulse_noise", "Noise", noise.impulse_noise, is_random=True),
        Corruption("defocus_blur", "Blur", blur.defocus_blur, is_random=False),
        Corruption("glass_blur", "Blur", blur.glass_blur, is_random=True),
        Corruption("motion_blur", "Blur", blur.motion_blur, is_random=True),
        Corruption("zoom_blur", "Blur", blur.zoom_blur, is_random=False),
        Corruption("snow", "Weather", weather.snow, is_random=True),
        Corruption("frost", "Weather", weather.frost, is_random=True),
        Corruption("fog", "Weather", weather.fog, is_random=True),
        Corruption("brightness", "Weather", weather.brightness, is_random=False),
        Corruption("contrast", "Digital", digital.contrast, is_random=False),
        Corruption("elastic_transform", "Digital", digital.elastic_transform, is_random=True),
        Corruption("pixelate", "Digital", digital.pixelate, is_random=False),
        Corruption("jpeg_compression", "Digital", digital.jpeg_compression, is_random=False),
        Corruption("speckle_noise", "Noise", noise.speckle_noise, is_random=True),
        Corruption("gaussian_blur", "Blur", blur.gaussian_blur, is_random=False),
        Corruption("spatter", "Weather", weather.spatter, is_random=True),
        Corruption("saturate", "Digital", digital.saturate, is_random=False),
    )
}
"""All corruptions by name, in the benchmark's order: the main fifteen, then four for validation."""

FAMILIES: dict[str, tuple[str, ...]] = {
    family: tuple(name for name, corruption in CORRUPTIONS.items() if corruption.family == family)
    for family in dict.fromkeys(corruption.family for corruption in CORRUPTIONS.values())
}
"""The names of the corruptions of each family, in the benchmark's order."""

CorruptedSet = tuple[str, int]
"""The name of a corruption and a severity."""
ALL_SETS: tuple[CorruptedSet, ...] = tuple((name, severity) for name in CORRUPTIONS for severity in SEVERITIES)
OBJECTIVE_SETS: tuple[CorruptedSet, ...] = tuple(
    (name, severity) for name in ("gaussian_noise", "defocus_blur", "fog", "jpeg_compression") for severity in (2, 4)
)
"""One corruption of each family, once mild and once harsh: objectives such as `nll@shift` are measured on these."""


def constants_of(name: str, severity: int, height: int, width: int) -> Constants:
    """Return the constants for the size, 32 or 64 pixels, that is nearer to the shorter side of the images.

    Example:
        >>> constants_of("gaussian_blur", 5, 28, 28), constants_of("gaussian_blur", 5, 64, 80)
        ((1,), (1.5,))
    """
    is_small = min(height, width) <= (SMALL_SIDE + LARGE_SIDE) / 2
    return (SMALL if is_small else LARGE)[name][severity - 1]
