from pathlib import Path

import numpy as np
import pytest
import torch

from sae.data.batches import Preparation, batch_bounds, evaluation_batches, training_batches
from sae.data.catalogue import load
from sae.data.dataset import Normalisation, Split
from sae.errors import ConfigError
from sae.task import Classification, Regression
from tests.data.samples import class_files, data_config, write_folder

CPU = torch.device("cpu")
PLAIN = Preparation(Normalisation((0.0,), (1.0,)), 3, CPU)
SPLIT = Split(np.arange(50, dtype=np.uint8).reshape(50, 1, 1, 1), np.arange(50) % 5)


def epoch(split: Split = SPLIT, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    batches = training_batches(
        split, data_config("x"), Classification(5), batch_bounds(len(split), 4), PLAIN, np.random.default_rng(seed)
    )
    inputs, targets = zip(*batches, strict=True)
    assert {len(part) for part in inputs} == {4, 2}
    return torch.cat(inputs), torch.cat(targets)


def test_an_epoch_has_every_sample_once() -> None:
    np.testing.assert_array_equal(epoch()[0].flatten().sort().values, np.arange(50))


def test_targets_follow_their_samples() -> None:
    inputs, targets = epoch()
    np.testing.assert_array_equal(inputs.flatten() % 5, targets)


def test_the_order_comes_from_the_generator() -> None:
    assert torch.equal(epoch(seed=1)[0], epoch(seed=1)[0])
    assert not torch.equal(epoch(seed=1)[0], epoch(seed=2)[0])


def test_samples_are_normalised_per_channel() -> None:
    prepare = Preparation(Normalisation((10.0, 20.0), (2.0, 4.0)), 3, CPU)
    prepared = prepare(np.full((1, 2, 1, 1), 30, np.uint8))
    np.testing.assert_array_equal(prepared.flatten(), [10.0, 2.5])


def test_real_targets_are_standardised_in_training() -> None:
    split = Split(SPLIT.inputs, np.linspace(0, 98, 50, dtype=np.float32))
    batches = training_batches(split, data_config("x"), Regression(10.0, 2.0), [0, 50], PLAIN, np.random.default_rng(0))
    inputs, targets = next(iter(batches))
    torch.testing.assert_close(targets, (2 * inputs.flatten() - 10) / 2)


def test_samples_that_are_mapped_from_disk_are_trained_and_evaluated_on(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", class_files())))
    prepare = Preparation(dataset.normalisation, 3, CPU)
    evaluated = torch.cat(list(evaluation_batches(dataset.test, prepare)))
    torch.testing.assert_close(evaluated, prepare(np.array(dataset.test.inputs[:])))
    batches = training_batches(
        dataset.train,
        data_config("x", crop=2, flip=True),
        Classification(2),
        batch_bounds(len(dataset.train), 4),
        prepare,
        np.random.default_rng(0),
    )
    assert sum(len(inputs) for inputs, _ in batches) == len(dataset.train)


def test_a_whole_array_that_is_mapped_from_disk_can_be_evaluated_on(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", SPLIT.inputs[:])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    evaluated = torch.cat(list(evaluation_batches(Split(mapped, SPLIT.targets), PLAIN)))
    np.testing.assert_array_equal(evaluated, SPLIT.inputs[:])


def test_a_last_batch_that_is_too_small_joins_its_neighbour() -> None:
    assert batch_bounds(9, 4, smallest=2) == [0, 4, 9]


def test_too_few_samples_for_a_batch_are_refused() -> None:
    with pytest.raises(ConfigError, match="must hold at least 2 samples, got 4 and 1"):
        batch_bounds(1, 4, smallest=2)
