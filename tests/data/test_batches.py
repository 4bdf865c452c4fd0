from pathlib import Path

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sae.config.run import DataConfig
from sae.core.errors import ConfigError
from sae.core.task import Classification, Regression, Task
from sae.data.batches import (
    Preparation,
    batch_bounds,
    disturbed,
    evaluation_batches,
    random_crop,
    random_flip,
    random_shift,
    training_batches,
)
from sae.data.catalogue import load
from sae.data.dataset import Normalisation, Split
from tests.data.samples import class_files, data_config, write_folder

CPU = torch.device("cpu")


@given(st.integers(2, 200), st.integers(2, 64), st.integers(1, 2))
def test_bounds_cover_every_sample_and_leave_no_batch_too_small(samples: int, batch_size: int, smallest: int) -> None:
    bounds = batch_bounds(samples, batch_size, smallest)
    sizes = np.diff(bounds)
    assert (bounds[0], bounds[-1]) == (0, samples)
    assert sizes.min() >= smallest
    assert sizes.max() <= batch_size + smallest - 1


def test_a_single_leftover_sample_joins_its_neighbour_only_where_it_must() -> None:
    assert batch_bounds(129, 64, smallest=2) == [0, 64, 129]
    assert batch_bounds(129, 64, smallest=1) == [0, 64, 128, 129]


def test_batches_of_one_are_refused_where_batchnorm_needs_two() -> None:
    with pytest.raises(ConfigError, match="at least 2 samples, got 1 and 10"):
        batch_bounds(10, 1, smallest=2)


def epoch(task: Task, targets: np.ndarray, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = np.arange(23, dtype=np.float32)[:, None]
    prepare = Preparation(Normalisation((0.0,), (1.0,)), 1, CPU)
    batches = list(
        training_batches(
            Split(inputs, targets),
            DataConfig(name="x"),
            task,
            batch_bounds(23, 2),
            prepare,
            np.random.default_rng(seed),
        )
    )
    inputs_of_all, targets_of_all, places = (torch.cat(each) for each in zip(*batches, strict=True))
    assert places.tolist() == inputs_of_all.flatten().tolist()  # every sample is its own place
    return inputs_of_all.flatten(), targets_of_all


def test_an_epoch_shows_every_sample_once_with_its_own_target() -> None:
    inputs, targets = epoch(Classification(30), np.arange(23))
    assert sorted(inputs.tolist()) == list(range(23))
    assert inputs.tolist() == targets.tolist()


def test_the_order_depends_on_the_generator_alone() -> None:
    one, two, other = (epoch(Classification(30), np.arange(23), seed)[0].tolist() for seed in (1, 1, 2))
    assert one == two != other


def test_real_targets_are_standardised_for_training() -> None:
    inputs, targets = epoch(Regression(mean=10.0, std=2.0), np.arange(23, dtype=np.float32))
    torch.testing.assert_close(targets, (inputs - 10.0) / 2.0)


def test_preparation_normalises_each_channel() -> None:
    prepare = Preparation(Normalisation((10.0, 20.0), (2.0, 4.0)), 3, CPU)
    images = np.full((1, 2, 3, 3), 30, np.uint8)
    prepared = prepare(images)
    assert prepared[0, :, 0, 0].tolist() == [10.0, 2.5]
    assert (images == 30).all()


def test_evaluation_keeps_order_and_loses_nothing() -> None:
    inputs = np.arange(600, dtype=np.float32)[:, None]
    prepare = Preparation(Normalisation((0.0,), (1.0,)), 1, CPU)
    seen = torch.cat(list(evaluation_batches(inputs, prepare)))
    assert seen.flatten().tolist() == list(range(600))


def test_samples_that_are_mapped_from_disk_are_trained_and_evaluated_on(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", class_files())))
    prepare = Preparation(dataset.normalisation, 3, CPU)
    evaluated = torch.cat(list(evaluation_batches(dataset.test.inputs, prepare)))
    torch.testing.assert_close(evaluated, prepare(np.array(dataset.test.inputs[:])))
    config = data_config("x", crop=2, flip=True)
    bounds = batch_bounds(len(dataset.train), 4)
    batches = training_batches(dataset.train, config, Classification(2), bounds, prepare, np.random.default_rng(0))
    assert sum(len(inputs) for inputs, _, _ in batches) == len(dataset.train)


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
    flipped, mirrored = random_flip(images, np.random.default_rng(seed))
    coins = np.random.default_rng(seed).random(len(images)) < 0.5
    for index, image in enumerate(images):
        assert (flipped[index] == (image[:, :, ::-1] if coins[index] else image)).all()
    assert (mirrored == coins).all()


def test_about_half_of_the_images_are_flipped() -> None:
    images = np.tile(np.array([0, 1], np.uint8), (2000, 1, 1, 1))
    flipped, _ = random_flip(images, np.random.default_rng(0))
    assert abs((flipped[:, 0, 0, 0] == 1).mean() - 0.5) < 0.05


def test_augmentation_leaves_its_input_alone() -> None:
    images = np.arange(2 * 5 * 7, dtype=np.uint8).reshape(2, 1, 5, 7)
    before = images.copy()
    random_crop(images, 2, np.random.default_rng(0))
    random_flip(images, np.random.default_rng(0))
    assert (images == before).all()


def test_a_shifted_signal_is_the_signal_at_another_time_with_its_ends_held() -> None:
    signals = np.arange(60, dtype=np.float32).reshape(3, 2, 10)
    found = random_shift(signals, 4, np.random.default_rng(0))
    for signal, shifted in zip(signals, found, strict=True):
        held = np.pad(signal, ((0, 0), (4, 4)), mode="edge")
        assert any(np.array_equal(shifted, held[:, start : start + 10]) for start in range(9))


def test_signals_are_shifted_each_by_its_own_time_both_ways() -> None:
    signals = np.tile(np.arange(20.0), (200, 1, 1))
    middle = random_shift(signals, 3, np.random.default_rng(0))[:, 0, 10]
    assert set(middle.tolist()) == {7, 8, 9, 10, 11, 12, 13}


def test_scale_is_one_factor_for_each_channel_of_a_signal() -> None:
    signals = torch.ones(500, 2, 7)
    found = disturbed(signals, DataConfig(name="x", scale=0.2), np.random.default_rng(0))
    assert (found == found[:, :, :1]).all()
    assert found[:, :, 0].std().item() == pytest.approx(0.2, rel=0.1)
    assert found.mean().item() == pytest.approx(1.0, abs=0.03)


def test_jitter_is_noise_of_its_own_at_every_time() -> None:
    found = disturbed(torch.zeros(200, 2, 50), DataConfig(name="x", jitter=0.3), np.random.default_rng(0))
    assert found.std().item() == pytest.approx(0.3, rel=0.05)
    assert len(found.unique()) > 0.99 * found.numel()


def test_signals_that_are_not_varied_are_the_same_tensor() -> None:
    signals = torch.zeros(2, 3, 4)
    assert disturbed(signals, DataConfig(name="x"), np.random.default_rng(0)) is signals


def test_an_epoch_of_signals_depends_on_its_generator_alone() -> None:
    inputs = np.random.default_rng(1).normal(size=(23, 2, 8)).astype(np.float32)
    config = DataConfig(name="x", crop=2, jitter=0.1, scale=0.1)
    prepare = Preparation(Normalisation((0.0, 0.0), (1.0, 1.0)), 2, CPU)

    def signals(seed: int) -> torch.Tensor:
        generator = np.random.default_rng(seed)
        split = Split(inputs, np.arange(23))
        batches = training_batches(split, config, Classification(23), batch_bounds(23, 4), prepare, generator)
        return torch.cat([x for x, _, _ in batches])

    assert torch.equal(signals(0), signals(0))
    assert not torch.equal(signals(0), signals(1))


def test_each_image_is_standardised_by_its_own_numbers() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 6), dtype=np.uint8)
    prepare = Preparation(Normalisation((10.0, 20.0, 30.0), (2.0, 4.0, 8.0), each_image=True), 3, CPU)
    found = prepare(images).numpy()
    scaled = (images - np.array([10.0, 20.0, 30.0])[:, None, None]) / np.array([2.0, 4.0, 8.0])[:, None, None]
    for image, own in zip(scaled, found, strict=True):
        np.testing.assert_allclose(own, (image - image.mean()) / image.std(), rtol=1e-4, atol=1e-5)


def test_an_image_of_one_colour_becomes_zero() -> None:
    prepare = Preparation(Normalisation((10.0,), (2.0,), each_image=True), 3, CPU)
    assert not prepare(np.full((2, 1, 4, 4), 77, np.uint8)).any()


def test_brightness_and_contrast_of_an_image_do_not_matter() -> None:
    images = np.random.default_rng(0).integers(0, 100, (2, 1, 8, 8), dtype=np.uint8)
    prepare = Preparation(Normalisation((10.0,), (2.0,), each_image=True), 3, CPU)
    torch.testing.assert_close(prepare(images), prepare(2 * images + 30), rtol=1e-4, atol=1e-4)
