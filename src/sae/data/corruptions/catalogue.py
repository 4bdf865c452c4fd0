"""The 19 corruptions by name. To add one: a function, its constants, and a line below."""

from collections.abc import Callable
from dataclasses import dataclass

from sae.data.corruptions import blur, digital, noise, weather
from sae.data.corruptions.constants import constants_of
from sae.data.corruptions.generators import Floats, ImageGenerators


@dataclass(frozen=True)
class Corruption:
    """A way to spoil images, in five severities.

    Attributes:
        name: As the benchmark spells it.
        function: From images in [0, 1], (sample, 3, height, width), their generators if it is
            random, and the constants of a severity, to images of the same shape, not yet clipped.
        is_random: Whether it draws anything, so that the seed matters.
    """

    name: str
    function: Callable[..., Floats]
    is_random: bool

    def apply(self, images: Floats, severity: int, generators: ImageGenerators) -> Floats:
        """Spoil images in [0, 1], (sample, 3, height, width), with the constants for their size."""
        height, width = images.shape[2:]
        constants = constants_of(self.name, severity, height, width)
        if self.is_random:
            return self.function(images, generators, *constants)
        return self.function(images, *constants)


CORRUPTIONS: dict[str, Corruption] = {
    corruption.name: corruption
    for corruption in (
        Corruption("gaussian_noise", noise.gaussian_noise, is_random=True),
        Corruption("shot_noise", noise.shot_noise, is_random=True),
        Corruption("impulse_noise", noise.impulse_noise, is_random=True),
        Corruption("defocus_blur", blur.defocus_blur, is_random=False),
        Corruption("glass_blur", blur.glass_blur, is_random=True),
        Corruption("motion_blur", blur.motion_blur, is_random=True),
        Corruption("zoom_blur", blur.zoom_blur, is_random=False),
        Corruption("snow", weather.snow, is_random=True),
        Corruption("frost", weather.frost, is_random=True),
        Corruption("fog", weather.fog, is_random=True),
        Corruption("brightness", digital.brightness, is_random=False),
        Corruption("contrast", digital.contrast, is_random=False),
        Corruption("elastic_transform", digital.elastic_transform, is_random=True),
        Corruption("pixelate", digital.pixelate, is_random=False),
        Corruption("jpeg_compression", digital.jpeg_compression, is_random=False),
        Corruption("speckle_noise", noise.speckle_noise, is_random=True),
        Corruption("gaussian_blur", blur.gaussian_blur, is_random=False),
        Corruption("spatter", weather.spatter, is_random=True),
        Corruption("saturate", digital.saturate, is_random=False),
    )
}
"""In the benchmark's order: its fifteen, then the four that it keeps for validation."""
