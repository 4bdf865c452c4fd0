from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import ConfigError, DataError
from sae.data.binding import Binding, hash_samples, load_bound
from sae.data.catalogue import load, resolve
from sae.data.dataset import SPLITS, Dataset
from tests.data.samples import data_config, table_rows, write_csv


def hashes(dataset: Dataset) -> list[list[int]]:
    return [hash_samples(dataset.split(name)).tolist() for name in SPLITS]


def test_fewer_training_samples_leave_validation_and_test_as_they_are() -> None:
    everything, few = load(data_config("digits")), load(data_config("digits", train_size=100))
    assert len(few.train) == 100
    assert set(hashes(few)[0]) < set(hashes(everything)[0])
    assert hashes(few)[1:] == hashes(everything)[1:]
    assert np.bincount(few.train.targets).min() >= 9


def test_the_split_seed_chooses_the_training_samples() -> None:
    one, again = (hashes(load(data_config("diabetes", train_size=50), seed=run))[0] for run in (0, 1))
    other = hashes(load(data_config("diabetes", train_size=50, split_seed=1)))[0]
    assert one == again != other


def test_more_training_samples_than_there_are_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.train_size must be at most 1,078, .* of digits, got 2,000"):
        load(data_config("digits", train_size=2000))


def test_a_class_without_training_samples_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must leave a sample of each class of digits, got 9: class \d would have"):
        load(data_config("digits", train_size=9))


def own_config(path: Path, **settings: object) -> dict[str, object]:
    return {"name": str(path), "task": "regression", "target": "price", **settings}


def test_own_data_get_the_settings_that_suit_the_limited_number(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", table_rows(400))
    few = write_csv(tmp_path / "few.csv", table_rows(50))
    limited, small = resolve({"data": own_config(path, train_size=30)}), resolve({"data": own_config(few)})
    assert limited.train == small.train != resolve({"data": own_config(path)}).train


@pytest.mark.parametrize("repeated", [0, 20])
def test_limited_training_samples_are_found_again_in_a_shuffled_file(tmp_path: Path, repeated: int) -> None:
    rows = table_rows(60)
    rows += rows[:repeated]
    path = write_csv(tmp_path / "t.csv", rows)
    config = data_config(**own_config(path, train_size=20))
    dataset = load(config)
    binding = Binding.of(dataset, config)
    write_csv(path, [rows[index] for index in np.random.default_rng(0).permutation(len(rows))])
    assert hashes(load_bound(config, 0, binding)) == hashes(dataset)


def test_a_limited_run_refuses_a_file_without_its_samples(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", table_rows(60))
    config = data_config(**own_config(path, train_size=20))
    binding = Binding.of(load(config), config)
    write_csv(path, table_rows(40))
    with pytest.raises(DataError, match=r"\d+ of the run's 44 samples are missing or changed"):
        load_bound(config, 0, binding)
