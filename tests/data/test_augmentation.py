import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sae.data.augmentation import random_crop, random_flip

IMAGES = np.random.default_rng(0).integers(1, 255, (6, 3, 8, 8), np.uint8)


@given(st.integers(0, 1000), st.integers(1, 5))
def test_a_crop_is_a_window_of_the_padded_image(seed: int, padding: int) -> None:
    cropped = random_crop(IMAGES, padding, np.random.default_rng(seed))
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    for image, window in zip(padded, cropped, strict=True):
        places = [(top, left) for top in range(2 * padding + 1) for left in range(2 * padding + 1)]
        assert any(np.array_equal(image[:, t : t + 8, left : left + 8], window) for t, left in places)


@given(st.integers(0, 1000))
def test_a_flip_is_the_image_or_its_mirror(seed: int) -> None:
    for image, flipped in zip(IMAGES, random_flip(IMAGES, np.random.default_rng(seed)), strict=True):
        assert np.array_equal(flipped, image) or np.array_equal(flipped, image[..., ::-1])


def test_about_half_are_flipped() -> None:
    images = np.arange(2000 * 2, dtype=np.int64).reshape(2000, 1, 1, 2)
    flipped = random_flip(images, np.random.default_rng(0))
    assert 900 < (flipped != images).any(axis=(1, 2, 3)).sum() < 1100


def test_the_images_given_are_left_alone() -> None:
    before = IMAGES.copy()
    random_flip(random_crop(IMAGES, 2, np.random.default_rng(0)), np.random.default_rng(0))
    np.testing.assert_array_equal(IMAGES, before)
