import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sae.data.augmentation import random_crop, random_flip

image_batches = arrays.arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 3), st.just(5), st.just(7)))


@given(image_batches, st.integers(1, 3), st.integers(0, 99))
def test_cropping_is_the_naive_loop_over_images(images: np.ndarray, padding: int, seed: int) -> None:
    cropped = random_crop(images, padding, np.random.default_rng(seed))
    top, left = np.random.default_rng(seed).integers(0, 2 * padding + 1, (2, len(images)))
    for index, image in enumerate(images):
        padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
        expected = padded[:, top[index] : top[index] + 5, left[index] : left[index] + 7]
        assert (cropped[index] == expected).all()


@given(image_batches, st.integers(0, 99))
def test_flipping_is_the_naive_loop_over_images(images: np.ndarray, seed: int) -> None:
    flipped = random_flip(images, np.random.default_rng(seed))
    coins = np.random.default_rng(seed).random(len(images)) < 0.5
    for index, image in enumerate(images):
        assert (flipped[index] == (image[:, :, ::-1] if coins[index] else image)).all()


def test_about_half_of_the_images_are_flipped() -> None:
    images = np.tile(np.array([0, 1], np.uint8), (2000, 1, 1, 1))
    flipped = random_flip(images, np.random.default_rng(0))
    assert abs((flipped[:, 0, 0, 0] == 1).mean() - 0.5) < 0.05


def test_augmentation_leaves_its_input_alone() -> None:
    images = np.arange(2 * 5 * 7, dtype=np.uint8).reshape(2, 1, 5, 7)
    before = images.copy()
    random_crop(images, 2, np.random.default_rng(0))
    random_flip(images, np.random.default_rng(0))
    assert (images == before).all()
