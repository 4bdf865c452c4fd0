import colorsys
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage

from sae.core.errors import DataError
from sae.data.corruptions import ALL_SETS, CORRUPTIONS, FAMILIES, OBJECTIVE_SETS, SEVERITIES, corrupt
from sae.data.corruptions.benchmark import LARGE, SMALL, constants_of
from sae.data.corruptions.blur import convolve, copy_neighbours, disk_kernel
from sae.data.corruptions.digital import affine_from_corners, saturate
from sae.data.corruptions.operations import ImageGenerators, gaussian_filter, smear, warp, zoom
from sae.data.corruptions.weather import brightness, frost_crystals, plasma
from sae.data.dataset import Floats, Pixels

# Severity 4 of motion blur changes only a radius that its Gaussian does not reach; glass blur, frost,
# spatter and saturate change their kind between severities; elastic transform shrinks.
GROWING = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    *("gaussian_blur", "defocus_blur", "zoom_blur", "fog", "brightness", "contrast", "pixelate", "jpeg_compression"),
)
WORST_AT_THE_END = ("motion_blur", "snow", "glass_blur")
WITHOUT_EFFECT = [("saturate", 1), ("saturate", 2), ("saturate", 3)]  # on gray images


def smooth_images(num_samples: int = 5, channels: int = 3, height: int = 32, width: int = 32, seed: int = 0) -> Pixels:
    noise = np.random.default_rng(seed).normal(size=(num_samples, channels, height, width))
    smooth = ndimage.gaussian_filter(noise, (0, 0, 2, 2))
    images: Pixels = (127 + 110 * np.tanh(smooth / smooth.std())).astype(np.uint8)
    return images


def floats(num_samples: int = 3, channels: int = 3, height: int = 11, width: int = 14) -> Floats:
    return np.random.default_rng(1).random((num_samples, channels, height, width), dtype=np.float32)


def generators_of(*indices: int, seed: int = 0) -> ImageGenerators:
    return ImageGenerators(seed, np.array(indices, np.uint64))


def mean_change(images: Pixels, name: str, severity: int) -> float:
    return float(np.abs(corrupt(images, name, severity, seed=0).astype(float) - images).mean())


@pytest.fixture(params=list(CORRUPTIONS))
def name(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


# Every image is on its own


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_does_not_see_its_batch(name: str, severity: int, channels: int) -> None:
    images = smooth_images(4, channels)
    whole = corrupt(images, name, severity, seed=7)
    alone = [corrupt(images[i : i + 1], name, severity, 7, np.array([i])) for i in range(4)]
    np.testing.assert_array_equal(np.concatenate(alone), whole)


@settings(max_examples=15)
@given(chosen=st.lists(st.integers(0, 9), min_size=1, max_size=12), severity=st.sampled_from(SEVERITIES))
@pytest.mark.parametrize("name", ["gaussian_noise", "motion_blur", "glass_blur", "fog", "frost", "elastic_transform"])
def test_any_subset_in_any_order_has_the_same_pixels(name: str, chosen: list[int], severity: int) -> None:
    images = smooth_images(10, 1, 12, 12)
    whole = corrupt(images, name, severity, seed=3)
    part = corrupt(images[chosen], name, severity, 3, np.array(chosen))
    np.testing.assert_array_equal(part, whole[chosen])


def test_groups_leave_no_trace(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    images = smooth_images(7, 1)
    at_once = corrupt(images, name, 3, seed=0)
    monkeypatch.setattr("sae.data.corruptions.apply.PIXELS_AT_ONCE", 3 * 32 * 32)
    np.testing.assert_array_equal(corrupt(images, name, 3, seed=0), at_once)


def test_memory_layout_does_not_matter(name: str) -> None:
    images = smooth_images(3)
    channels_last = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(corrupt(channels_last, name, 4, seed=0), corrupt(images, name, 4, seed=0))


def test_the_global_generator_is_left_alone(name: str) -> None:
    state = np.random.get_state(legacy=False)["state"]["key"]
    corrupt(smooth_images(1), name, 3, seed=0)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], state)


@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if CORRUPTIONS[name].is_random])
def test_random_corruptions_follow_the_seed(name: str, severity: int) -> None:
    images = smooth_images(2)
    assert (corrupt(images, name, severity, seed=0) != corrupt(images, name, severity, seed=1)).any()


def test_images_of_one_batch_have_their_own_noise() -> None:
    images = np.full((2, 1, 16, 16), 127, np.uint8)
    first, second = corrupt(images, "gaussian_noise", 3, seed=0)
    assert (first != second).any()


def test_draws_of_one_image_differ() -> None:
    generators = generators_of(4)
    assert (generators.normal(50) != generators.normal(50)).all()


def test_whole_numbers_include_both_ends() -> None:
    assert set(generators_of(0).integers(-1, 1, 200).ravel()) == {-1, 0, 1}


# What comes out


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 8), (1, 20, 28), (3, 28, 20), (1, 64, 64), (3, 64, 64), (1, 1, 1)])
def test_shape_and_type_are_kept(name: str, shape: tuple[int, int, int]) -> None:
    images = smooth_images(2, *shape)
    for severity in SEVERITIES:
        corrupted = corrupt(images, name, severity, seed=0)
        assert corrupted.shape == images.shape
        assert corrupted.dtype == np.uint8


def test_the_input_is_not_written_to(name: str) -> None:
    images = smooth_images(2)
    images.flags.writeable = False
    corrupt(images, name, 5, seed=0)


def test_no_images_give_no_images(name: str) -> None:
    assert corrupt(np.zeros((0, 3, 32, 32), np.uint8), name, 1, seed=0).shape == (0, 3, 32, 32)


@pytest.mark.parametrize("side", [16, 32, 64])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_colour_images_change(name: str, severity: int, side: int) -> None:
    assert mean_change(smooth_images(2, 3, side, side), name, severity) > 0.05


@pytest.mark.parametrize("side", [16, 32, 64])
@pytest.mark.parametrize(
    ("name", "severity"), [case for case in itertools.product(CORRUPTIONS, SEVERITIES) if case not in WITHOUT_EFFECT]
)
def test_gray_images_change(name: str, severity: int, side: int) -> None:
    assert mean_change(smooth_images(2, 1, side, side), name, severity) > 0.05


@pytest.mark.parametrize(("name", "severity"), WITHOUT_EFFECT)
def test_gray_has_no_colour_to_saturate(name: str, severity: int) -> None:
    images = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    np.testing.assert_array_equal(corrupt(images, name, severity, seed=0), images)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gray_is_the_luma_of_the_corrupted_colours(severity: int) -> None:
    gray = smooth_images(2, 1)
    colours = corrupt(gray.repeat(3, axis=1), "gaussian_noise", severity, seed=0).astype(float)
    luma = 0.299 * colours[:, 0] + 0.587 * colours[:, 1] + 0.114 * colours[:, 2]
    assert np.abs(corrupt(gray, "gaussian_noise", severity, seed=0)[:, 0] - luma).max() <= 1


@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.parametrize("name", GROWING)
def test_change_grows_with_severity(name: str, side: int) -> None:
    images = smooth_images(16, 3, side, side)
    changes = [mean_change(images, name, severity) for severity in SEVERITIES]
    assert all(milder < worse for milder, worse in itertools.pairwise(changes)), changes


@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.parametrize("name", WORST_AT_THE_END)
def test_the_last_severity_changes_more_than_the_first(name: str, side: int) -> None:
    images = smooth_images(16, 3, side, side)
    assert mean_change(images, name, 5) > mean_change(images, name, 1)


# Noise has the moments it should


def test_gaussian_noise_has_its_standard_deviation() -> None:
    images = np.full((40, 3, 32, 32), 127, np.uint8)
    assert corrupt(images, "gaussian_noise", 5, seed=0).std() / 255 == pytest.approx(0.10, rel=0.02)


def test_shot_noise_has_the_variance_of_counts() -> None:
    images = np.full((40, 3, 32, 32), 127, np.uint8)
    assert (corrupt(images, "shot_noise", 5, seed=0) / 255).var() == pytest.approx(127 / 255 / 50, rel=0.03)


def test_speckle_noise_is_proportional_to_the_light() -> None:
    images = np.full((40, 3, 32, 32), 100, np.uint8)
    assert corrupt(images, "speckle_noise", 5, seed=0).std() == pytest.approx(100 * 0.2, rel=0.02)


@pytest.mark.parametrize("value", [0, 255])
def test_impulse_noise_loses_its_share_of_the_values(value: int) -> None:
    images = np.full((40, 3, 32, 32), 127, np.uint8)
    assert (corrupt(images, "impulse_noise", 5, seed=0) == value).mean() == pytest.approx(0.07 / 2, rel=0.05)


# Batched against one image at a time


@given(reach=st.integers(1, 2), passes=st.integers(1, 2), seed=st.integers(0, 1000))
@settings(max_examples=15)
def test_glass_copies_pixels_as_a_loop_does(reach: int, passes: int, seed: int) -> None:
    moves = generators_of(0, 1, 2, seed=seed).integers(-reach, reach - 1, passes, 2, 7, 9)
    for sample, origins in enumerate(copy_neighbours(moves, reach)):
        np.testing.assert_array_equal(
            origins.reshape(7, 9), glass_loop(np.arange(63).reshape(7, 9), moves[sample], reach)
        )


def glass_loop(pixels: NDArray[np.generic], moves: NDArray[np.int64], reach: int) -> NDArray[np.generic]:
    """Overwrite the pixels of one plane one by one, as the published code does."""
    pixels = pixels.copy()
    height, width = pixels.shape
    for move in moves:  # (2, height, width), one for each pass
        for row in range(height - 1 - reach, reach - 1, -1):
            for column in range(width - 1 - reach, reach - 1, -1):
                down, right = move[:, row, column]
                pixels[row, column] = pixels[row + down, column + right]
    return pixels


@pytest.mark.parametrize(("side", "severity", "std", "reach", "passes"), [(32, 5, 0.4, 1, 2), (64, 4, 0.7, 2, 1)])
def test_glass_blur_blurs_copies_and_blurs(side: int, severity: int, std: float, reach: int, passes: int) -> None:
    images = floats(2, 3, side, side)
    moves = generators_of(4, 9, seed=3).integers(-reach, reach - 1, passes, 2, side, side)
    assert (moves.min(), moves.max()) == (-reach, reach - 1)
    glassy = CORRUPTIONS["glass_blur"].apply(images, severity, generators_of(4, 9, seed=3))
    for image, move, result in zip(images, moves, glassy, strict=True):
        for plane, corrupted in zip(image, result, strict=True):
            copied = glass_loop(ndimage.gaussian_filter(plane, std, mode="nearest"), move, reach)
            expected = ndimage.gaussian_filter(copied.astype(np.float32), std, mode="nearest")
            np.testing.assert_allclose(corrupted, expected, atol=1e-5)


@pytest.mark.parametrize(("radius", "std"), [(3, 1.0), (6, 2.0), (9, 9.0)])
def test_smear_adds_up_pixels_along_a_line(radius: int, std: float) -> None:
    images = floats(4, 2)
    angles = np.array([0, -45, 33, -117], np.float32)
    smeared = smear(images, radius, std, angles)
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * std**2))
    weights /= weights.sum()
    for i, angle in enumerate(np.deg2rad(angles)):
        expected = np.zeros((2, 11, 14))
        for y, x, step in itertools.product(range(11), range(14), steps):
            row = min(max(y + round(float(np.sin(angle)) * step), 0), 10)
            column = min(max(x + round(float(np.cos(angle)) * step), 0), 13)
            expected[:, y, x] += weights[step] * images[i, :, row, column]
        np.testing.assert_allclose(smeared[i], expected, atol=1e-4)


@pytest.mark.parametrize("factor", [1.0, 1.07, 2.25])
def test_zoom_agrees_with_scipy(factor: float) -> None:
    images = floats(2, 1)
    offset = [(size - 1) / 2 * (1 - 1 / factor) for size in (11, 14)]
    for image, zoomed in zip(images[:, 0], zoom(images, factor)[:, 0], strict=True):
        expected = ndimage.affine_transform(image, [1 / factor] * 2, offset, order=1)
        np.testing.assert_allclose(zoomed, expected, atol=1e-5)


@pytest.mark.parametrize(("severity", "num_zooms"), [(1, 7), (2, 12), (3, 16), (4, 21), (5, 26)])
def test_zoom_blur_is_the_mean_of_the_image_and_its_zooms(severity: int, num_zooms: int) -> None:
    images = floats(2, 3, 32, 32)
    total = images.astype(np.float64)
    for step in range(num_zooms):
        total += zoom(images, 1 + step / 100)
    blurred = CORRUPTIONS["zoom_blur"].apply(images, severity, generators_of(0, 1))
    np.testing.assert_allclose(blurred, total / (num_zooms + 1), atol=1e-5)


def test_warp_agrees_with_scipy() -> None:
    images, rng = floats(), np.random.default_rng(2)
    rows, columns = rng.uniform(-15, 30, (2, 3, 11, 14)).astype(np.float32)
    warped = warp(images, rows, columns)
    for i, channel in itertools.product(range(3), range(3)):
        expected = ndimage.map_coordinates(images[i, channel], [rows[i], columns[i]], order=1, mode="reflect")
        np.testing.assert_allclose(warped[i, channel], expected, atol=1e-4)


@pytest.mark.parametrize(("radius", "alias_std"), [(0.3, 0.4), (1.5, 0.1), (3, 0.1)])
def test_convolve_agrees_with_scipy(radius: float, alias_std: float) -> None:
    images, kernel = floats(), disk_kernel(radius, alias_std)
    expected = ndimage.convolve(images, kernel[None, None].astype(np.float32), mode="mirror")
    np.testing.assert_allclose(convolve(images, kernel), expected, atol=1e-5)


def test_gaussian_filter_keeps_images_apart() -> None:
    images = floats()
    expected = [[ndimage.gaussian_filter(plane, 1.3, mode="nearest") for plane in image] for image in images]
    np.testing.assert_allclose(gaussian_filter(images, 1.3), expected, atol=1e-6)


@pytest.mark.parametrize("reach", [1, 2, 3])
def test_a_disk_counts_the_pixels_within_its_radius(reach: int) -> None:
    inside = [(y, x) for y in range(-reach, reach + 1) for x in range(-reach, reach + 1) if y * y + x * x <= reach**2]
    kernel = disk_kernel(reach, alias_std=0.01)
    np.testing.assert_allclose(kernel[kernel > 0], [1 / len(inside)] * len(inside))


def test_plasma_agrees_with_diamond_square_point_by_point() -> None:
    side, decay = 8, 1.75
    noise = generators_of(5).uniform(side, side)[0] * 2 - 1
    field, mesh, scale = np.zeros((side, side)), side, 1.0
    while mesh > 1:
        half = mesh // 2
        for offsets, starts in (
            ([(-half, -half), (-half, half), (half, -half), (half, half)], [(half, half)]),
            ([(-half, 0), (half, 0), (0, -half), (0, half)], [(0, half), (half, 0)]),
        ):
            for top, left in starts:
                for y, x in itertools.product(range(top, side, mesh), range(left, side, mesh)):
                    around = [field[(y + down) % side, (x + right) % side] for down, right in offsets]
                    field[y, x] = np.mean(around) + scale * noise[y, x]
        mesh, scale = half, scale / decay**2
    expected = (field - field.min()) / (field.max() - field.min())
    np.testing.assert_allclose(plasma(generators_of(5), side, 6, decay)[0], expected[:, :6], atol=1e-5)


def test_elastic_corners_go_back_to_where_they_came_from() -> None:
    shifts = generators_of(0, 1).normal(3, 2)
    corners = np.array([16, 16]) + 10 * np.array([[1, 1], [1, -1], [-1, -1]])
    for matrix, shift in zip(affine_from_corners(32, 32, shifts), shifts, strict=True):
        np.testing.assert_allclose((corners + shift) @ matrix[:, :2].T + matrix[:, 2], corners, atol=1e-4)


@given(
    colour=st.tuples(*[st.integers(0, 255)] * 3), change=st.sampled_from([("v", 1, 0.2), ("s", 0.3, 0), ("s", 2, 0.1)])
)
def test_hsv_agrees_with_the_standard_library(colour: tuple[int, int, int], change: tuple[str, float, float]) -> None:
    channel, factor, shift = change
    hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in colour))
    pixel = (np.array(colour, np.float32) / np.float32(255))[None, :, None, None]
    if channel == "v":
        changed, value = brightness(pixel, shift), min(value + shift, 1)
    else:
        changed, saturation = saturate(pixel, factor, shift), min(saturation * factor + shift, 1)
    np.testing.assert_allclose(changed.ravel(), colorsys.hsv_to_rgb(hue, saturation, value), atol=1e-5)


def test_pixelate_to_one_half_repeats_means_of_four() -> None:
    images = smooth_images(2, 1, 64, 64)
    means = images.reshape(2, 1, 32, 2, 32, 2).mean(axis=(3, 5))
    assert np.abs(corrupt(images, "pixelate", 5, 0) - means.repeat(2, 2).repeat(2, 3)).max() <= 1


def test_contrast_keeps_the_mean() -> None:
    images = smooth_images(2)
    np.testing.assert_allclose(corrupt(images, "contrast", 5, 0).mean(axis=(2, 3)), images.mean(axis=(2, 3)), atol=0.5)


def test_frost_is_bluish_white() -> None:
    red, green, blue = frost_crystals(generators_of(*range(8)), 32, 32).mean(axis=(0, 2, 3))
    assert 0.4 < red < green < blue < 0.8


# Families and sets


def test_every_corruption_is_in_one_family() -> None:
    listed = [name for names in FAMILIES.values() for name in names]
    assert sorted(listed) == sorted(CORRUPTIONS)


def test_the_families_are_those_of_the_benchmark() -> None:
    assert list(FAMILIES) == ["Noise", "Blur", "Weather", "Digital"]
    assert FAMILIES["Weather"] == ("snow", "frost", "fog", "brightness", "spatter")


def test_shift_objectives_use_one_corruption_of_each_family() -> None:
    assert {CORRUPTIONS[name].family for name, _ in OBJECTIVE_SETS} == set(FAMILIES)
    assert len({name for name, _ in OBJECTIVE_SETS}) == len(FAMILIES)


def test_there_are_95_sets() -> None:
    assert len(set(ALL_SETS)) == len(ALL_SETS) == 95


# Constants


def test_every_corruption_has_five_constants_for_each_size() -> None:
    assert list(SMALL) == list(LARGE) == list(CORRUPTIONS)
    assert {len(rows) for table in (SMALL, LARGE) for rows in table.values()} == {5}


@pytest.mark.parametrize(
    ("name", "severity", "side", "expected"),
    [
        ("gaussian_noise", 5, 32, (0.10,)),
        ("gaussian_noise", 5, 64, (0.18,)),
        ("glass_blur", 4, 64, (0.7, 2, 1)),
        ("snow", 3, 32, (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9)),
        ("snow", 3, 64, (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7)),
        ("elastic_transform", 2, 32, (0.05, 0.2, 0.07)),
        ("saturate", 5, 64, (30, 0.2)),
        ("jpeg_compression", 1, 8, (80,)),
    ],
)
def test_constants_are_the_published_ones(name: str, severity: int, side: int, expected: tuple[float, ...]) -> None:
    assert constants_of(name, severity, side, side) == expected


@pytest.mark.parametrize(("height", "width", "nearest"), [(8, 200, 32), (48, 48, 32), (49, 60, 64), (224, 224, 64)])
def test_the_shorter_side_chooses_the_constants(height: int, width: int, nearest: int) -> None:
    assert constants_of("contrast", 1, height, width) == constants_of("contrast", 1, nearest, nearest)


# What is refused


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"one of gaussian_noise, .*saturate; got 'fogg', did you mean fog\?"):
        corrupt(smooth_images(1), "fogg", 1, seed=0)


@pytest.mark.parametrize("severity", [0, 6, -1])
def test_a_severity_out_of_range_is_refused(severity: int) -> None:
    with pytest.raises(DataError, match=f"severity must be one of 1, 2, 3, 4, 5; got {severity}"):
        corrupt(smooth_images(1), "fog", severity, seed=0)


def test_floats_are_refused() -> None:
    with pytest.raises(DataError, match="must be uint8, before normalisation; got float32"):
        corrupt(floats(), "fog", 1, seed=0)


@pytest.mark.parametrize("shape", [(32, 32), (3, 32, 32), (1, 2, 32, 32), (1, 3, 0, 32)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"\(sample, channel, height, width\) with 1 or 3 channels .* got \("):
        corrupt(np.zeros(shape, np.uint8), "fog", 1, seed=0)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0], r"2 integers, one per image, got int64 of shape \(1,\)"),
        ([0.0, 1.0], "got float64"),
        ([0, -1], "got -1"),
    ],
)
def test_indices_must_number_the_images(indices: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        corrupt(smooth_images(2), "fog", 1, 0, np.array(indices))
