import numpy as np
import pytest

from sae.core.errors import DataError
from sae.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from sae.data.dataset import Array
from sae.data.overview import GAP, corruption_grid, sample_grid


@pytest.mark.parametrize(("shape", "height", "width"), [((1, 32, 32), 96, 96), ((3, 20, 28), 60, 84)])
def test_the_corruption_grid_has_a_row_for_each(shape: tuple[int, int, int], height: int, width: int) -> None:
    grid = corruption_grid(np.full(shape, 90, np.uint8), seed=0)
    assert 0 < grid.height - len(CORRUPTIONS) * (height + GAP) < 50
    assert 0 < grid.width - (1 + len(SEVERITIES)) * (width + GAP) < 200


def test_the_last_cell_is_the_last_corruption_at_its_worst() -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, 32, 32), dtype=np.uint8)
    grid = np.asarray(corruption_grid(image, seed=0))
    cell = grid[-96 - GAP : -GAP : 3, -96 - GAP : -GAP : 3]
    np.testing.assert_array_equal(cell.transpose(2, 0, 1), corrupt(image[None], list(CORRUPTIONS)[-1], 5, seed=0)[0])


def test_every_row_shows_the_clean_image() -> None:
    image = np.array([10, 20, 30], np.uint8)[:, None, None].repeat(32, 1).repeat(32, 2)
    grid = np.asarray(corruption_grid(image, seed=0))
    assert (grid == [10, 20, 30]).all(axis=2).sum() >= len(CORRUPTIONS) * 96 * 96


def test_the_sample_grid_shows_every_pixel_of_every_sample() -> None:
    images = np.stack([np.full((1, 8, 8), value, np.uint8) for value in range(3, 13)])
    grid = np.asarray(sample_grid(images, range(10)))
    assert all((grid == value).all(axis=2).sum() >= 96 * 96 for value in range(3, 13))


def test_a_long_title_stays_above_its_image() -> None:
    grid = np.asarray(sample_grid(np.zeros((1, 1, 32, 32), np.uint8), ["longer than an image is wide"]))
    assert (grid[:, -GAP:] == 255).all()


def test_each_drawn_sample_needs_a_title() -> None:
    with pytest.raises(DataError, match="one title each, got 2 images and 1 titles"):
        sample_grid(np.zeros((2, 1, 32, 32), np.uint8), ["cat"])


@pytest.mark.parametrize("image", [np.zeros((32, 32), np.uint8), np.zeros((2, 8, 8), np.uint8), np.zeros((1, 8, 8))])
def test_what_is_no_image_is_not_drawn(image: Array) -> None:
    with pytest.raises(DataError, match=r"must be uint8, \(channel, height, width\) with 1 or 3 channels, got"):
        corruption_grid(image, seed=0)
