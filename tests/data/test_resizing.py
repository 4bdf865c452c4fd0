import numpy as np
import pytest
from PIL import Image, ImageOps

from sae.config.run import Fit
from sae.data.dataset import Array
from sae.data.resizing import FILTER, resized

FITS: tuple[Fit, ...] = ("stretch", "pad", "crop")


def noise(height: int, width: int, channels: int = 3) -> Array:
    return np.random.default_rng(0).integers(0, 256, (channels, height, width)).astype(np.uint8)


def as_pillow(image: Array) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))


def from_pillow(image: Image.Image) -> Array:
    return np.asarray(image).transpose(2, 0, 1)


@pytest.mark.parametrize("shape", [(30, 17), (5, 9), (64, 64)])
def test_stretch_is_the_resize_of_pillow(shape: tuple[int, int]) -> None:
    image = noise(*shape)
    expected = from_pillow(as_pillow(image).resize((24, 16), FILTER))
    np.testing.assert_array_equal(resized(image, 16, 24, "stretch"), expected)


@pytest.mark.parametrize("shape", [(30, 17), (9, 31), (64, 64)])
def test_crop_is_the_fit_of_pillow(shape: tuple[int, int]) -> None:
    image = noise(*shape)
    expected = from_pillow(ImageOps.fit(as_pillow(image), (24, 16), FILTER))
    np.testing.assert_array_equal(resized(image, 16, 24, "crop"), expected)


@pytest.mark.parametrize("shape", [(30, 17), (9, 31), (64, 64)])
def test_pad_keeps_proportions_on_black(shape: tuple[int, int]) -> None:
    image = np.full((3, *shape), 200, np.uint8)
    padded = resized(image, 16, 24, "pad")
    rows, columns = np.flatnonzero(padded[0].any(axis=1)), np.flatnonzero(padded[0].any(axis=0))
    assert set(np.unique(padded)) == {0, 200}
    assert len(rows) / len(columns) == pytest.approx(shape[0] / shape[1], rel=0.1)
    assert len(rows) == 16 or len(columns) == 24
    assert abs(rows[0] - (15 - rows[-1])) <= 1
    assert abs(columns[0] - (23 - columns[-1])) <= 1


@pytest.mark.parametrize("fit", FITS)
def test_an_image_of_the_size_is_unchanged(fit: Fit) -> None:
    image = noise(16, 24)
    np.testing.assert_array_equal(resized(image, 16, 24, fit), image)


@pytest.mark.parametrize("fit", FITS)
def test_the_thinnest_image_can_be_resized(fit: Fit) -> None:
    assert resized(noise(1, 500), 8, 8, fit).shape == (3, 8, 8)


@pytest.mark.parametrize("fit", FITS)
def test_floats_keep_their_range_and_precision(fit: Fit) -> None:
    image = np.random.default_rng(0).uniform(0, 65535, (1, 40, 21)).astype(np.float32)
    small = resized(image, 8, 8, fit)
    assert small.dtype == np.float32
    assert small.max() <= image.max()
    assert len(np.unique(small)) > 32  # nothing is rounded to bytes
