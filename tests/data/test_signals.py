from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sae.core.errors import ConfigError, DataError
from sae.core.task import Classification, Regression, SampleKind
from sae.data.batches import Preparation
from sae.data.catalogue import find_entry, load, load_others, resolve
from sae.data.dataset import Array, Dataset
from sae.data.defaults import suggest_training
from tests.data.samples import data_config, signal_arrays, signal_rows, write_csv, write_npz


def signals(path: Path, **settings: Any) -> Dataset:
    return load(data_config(path, **{"task": "classification", **settings}))


def refusal(path: Path, **settings: Any) -> str:
    with pytest.raises((DataError, ConfigError)) as caught:
        signals(path, **settings)
    return str(caught.value)


def test_signals_come_as_they_are(tmp_path: Path) -> None:
    given = signal_arrays()
    dataset = signals(write_npz(tmp_path / "a.npz", given))
    np.testing.assert_array_equal(dataset.test.inputs[:], given["test_signals"].astype(dataset.test.inputs.dtype))
    assert (dataset.spec.shape, dataset.spec.kind) == ((2, 9), SampleKind.SIGNALS)
    assert dataset.spec.task == Classification(3)


def test_normalisation_is_that_of_each_channel_over_the_training_samples_and_time(tmp_path: Path) -> None:
    given = signal_arrays()
    given["train_signals"][:, 1] *= 1000
    given |= {"val_signals": given["test_signals"], "val_labels": given["test_labels"]}
    found = signals(write_npz(tmp_path / "a.npz", given)).normalisation
    by_channel = given["train_signals"].transpose(1, 0, 2).reshape(2, -1)
    np.testing.assert_allclose(found.mean, by_channel.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.std, by_channel.std(axis=1), rtol=1e-6)


def test_a_constant_channel_is_only_centred(tmp_path: Path) -> None:
    given = signal_arrays()
    given["train_signals"][:, 0] = 0.1
    found = signals(write_npz(tmp_path / "a.npz", given)).normalisation
    assert found.mean[0] == pytest.approx(0.1)
    assert found.std[0] == 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.uint8])
def test_numbers_of_any_type_are_signals_under_this_name(tmp_path: Path, dtype: type[np.generic]) -> None:
    given = signal_arrays()
    given["test_signals"] = given["test_signals"].clip(0).astype(dtype)
    given["train_signals"] = given["train_signals"].clip(0).astype(dtype)
    dataset = signals(write_npz(tmp_path / "a.npz", given))
    np.testing.assert_array_equal(dataset.test.inputs[:], given["test_signals"].astype(dataset.test.inputs.dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_signals_are_read_in_the_type_that_a_shipped_graph_takes(tmp_path: Path, dtype: type[np.generic]) -> None:
    given = {
        name: array.astype(dtype) if name.endswith("signals") else array for name, array in signal_arrays().items()
    }
    assert signals(write_npz(tmp_path / "a.npz", given)).test.inputs.dtype == np.float64


def test_a_large_offset_costs_no_precision(tmp_path: Path) -> None:
    given = signal_arrays()
    moved = {name: array + 1.7e9 if name.endswith("signals") else array for name, array in given.items()}
    prepared = []
    for name, arrays in (("a.npz", given), ("b.npz", moved)):
        dataset = signals(write_npz(tmp_path / name, arrays))
        prepared.append(Preparation(dataset.normalisation, 2, torch.device("cpu"))(dataset.test.inputs[:]))
    torch.testing.assert_close(prepared[0], prepared[1], rtol=0, atol=1e-5)


def test_the_settings_suggested_suit_the_number_of_training_signals(tmp_path: Path) -> None:
    given = signal_arrays()
    whole = {"signals": given["train_signals"], "labels": given["train_labels"]}
    table = write_csv(tmp_path / "t.csv", signal_rows(50))
    for path, count, more in (
        (write_npz(tmp_path / "a.npz", given), 30, {}),
        (write_npz(tmp_path / "b.npz", whole), 18, {}),
        (table, 30, {"kind": "signals", "target": "kind"}),
    ):
        config = resolve({"data": {"name": str(path), "task": "classification", **more}})
        suggested = suggest_training(count)["train"]
        assert config.backbone.name == "conv1d"
        assert {key: getattr(config.train, key) for key in suggested} == suggested


def test_two_dimensions_are_one_channel(tmp_path: Path) -> None:
    given = signal_arrays(channels=1)
    flat = {name: array[:, 0] if array.ndim == 3 else array for name, array in given.items()}
    dataset = signals(write_npz(tmp_path / "a.npz", flat))
    np.testing.assert_array_equal(dataset.test.inputs[:], given["test_signals"].astype(dataset.test.inputs.dtype))


def test_a_missing_val_split_is_taken_from_train(tmp_path: Path) -> None:
    dataset = signals(write_npz(tmp_path / "a.npz", signal_arrays()))
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (27, 3, 12)
    together = np.concatenate([dataset.train.inputs[:], dataset.val.inputs[:]]).reshape(30, -1)
    assert len(np.unique(together, axis=0)) == 30


def test_a_file_without_splits_is_split_by_the_split_seed(tmp_path: Path) -> None:
    given = signal_arrays()
    path = write_npz(tmp_path / "a.npz", {"signals": given["train_signals"], "labels": given["train_labels"]})
    one, other = signals(path), signals(path, split_seed=1)
    assert (len(one.train), len(one.val), len(one.test)) == (18, 6, 6)
    assert not np.array_equal(one.test.inputs[:], other.test.inputs[:])


def test_texts_are_names_of_classes(tmp_path: Path) -> None:
    given = signal_arrays()
    names = np.array(["run", "stand", "walk"])
    texts = {name: names[array] if name.endswith("labels") else array for name, array in given.items()}
    dataset = signals(write_npz(tmp_path / "a.npz", texts))
    assert dataset.class_names == ("run", "stand", "walk")
    np.testing.assert_array_equal(dataset.test.targets, given["test_labels"])


def test_a_text_that_was_not_trained_is_refused(tmp_path: Path) -> None:
    given = signal_arrays()
    given |= {"train_labels": np.array(["a", "b", "c"] * 10), "test_labels": np.array(["a", "new"] * 6)}
    assert "label of the training split for each sample, got 'new' in test_labels of" in refusal(
        write_npz(tmp_path / "a.npz", given)
    )


def test_targets_of_a_regression_are_standardised(tmp_path: Path) -> None:
    given = signal_arrays()
    given |= {"train_labels": np.linspace(-3, 90, 30), "test_labels": np.linspace(0, 1, 12)}
    task = signals(write_npz(tmp_path / "a.npz", given), task="regression").spec.task
    assert isinstance(task, Regression)
    assert isinstance(task.mean, float)
    assert 20 < task.mean < 60


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_missing_value_is_refused_with_its_place(tmp_path: Path, wrong: float) -> None:
    given = signal_arrays()
    given["test_signals"][3, 1, 7] = wrong
    found = refusal(write_npz(tmp_path / "a.npz", given))
    assert f"got {wrong} in sample 3, channel 1, time step 7 of test_signals of" in found


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"train_signals": np.zeros((30, 2, 3, 4))}, "got float64 of shape (30, 2, 3, 4) in train_signals"),
        ({"train_signals": np.zeros((30, 2, 9), bool)}, "got bool of shape (30, 2, 9) in train_signals"),
        ({"train_signals": np.zeros((0, 2, 9))}, "got float64 of shape (0, 2, 9) in train_signals"),
        ({"train_labels": np.zeros(29, int)}, "one label for each signal, got 29 for 30 signals in train_labels"),
        ({"train_labels": np.zeros(30, int)}, "at least 2 classes, got [0] in train_labels"),
        ({"train_labels": np.zeros(30)}, "labels must be integers for classification, got float64 in train_labels"),
        ({"test_signals": np.zeros((12, 2, 8))}, "samples must have shape (2, 9), got (2, 8)"),
    ],
)
def test_a_file_that_cannot_be_trained_on_is_refused(tmp_path: Path, change: dict[str, Array], problem: str) -> None:
    assert problem in refusal(write_npz(tmp_path / "a.npz", signal_arrays() | change))


def test_a_split_without_labels_is_refused(tmp_path: Path) -> None:
    given = signal_arrays()
    del given["test_labels"]
    assert "test_labels is missing" in refusal(write_npz(tmp_path / "a.npz", given))


def named_x(given: dict[str, Array]) -> dict[str, Array]:
    new = {"train_signals": "x_train", "train_labels": "y_train", "test_signals": "x_test", "test_labels": "y_test"}
    return {new[name]: array for name, array in given.items()}


def test_x_that_could_be_images_or_signals_needs_to_be_told_which(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", named_x(signal_arrays()))
    assert (
        "must say what its samples are: x_train of shape (30, 2, 9) in float64 may be signals "
        "(sample, channel, length) or images. Name the array signals or images, or add --kind signals"
    ) in refusal(path)
    assert signals(path, kind="signals").spec.shape == (2, 9)


@pytest.mark.parametrize("shape", [(30, 8, 8), (30, 8, 8, 3)])
def test_x_in_uint8_are_images(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = write_npz(tmp_path / "a.npz", {"x_train": np.zeros(shape, np.uint8)})
    assert find_entry(str(path)).kind is SampleKind.IMAGES


def test_gray_images_stay_images_and_can_be_read_as_signals(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz")
    assert signals(path).spec.shape == (1, 8, 8)
    assert signals(path, kind="signals").spec.shape == (8, 8)


def test_what_an_npz_cannot_be_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", signal_arrays())
    assert "an .npz file holds images or signals, got --kind table" in refusal(path, kind="table")
    assert "data.kind must be images for digits, got signals" in refusal(Path("digits"), task=None, kind="signals")


def test_signals_suggest_their_backbone(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", signal_arrays())
    assert resolve({"data": {"name": str(path), "task": "classification"}}).backbone.name == "conv1d"


@pytest.mark.parametrize("setting", [{"flip": True}])
def test_signals_cannot_be_flipped(tmp_path: Path, setting: dict[str, object]) -> None:
    found = refusal(write_npz(tmp_path / "a.npz", signal_arrays()), **setting)
    assert "data.flip must be off for" in found
    assert "it applies to images, and this is a set of signals" in found


@pytest.mark.parametrize("setting", [{"jitter": 0.1}, {"scale": 0.1}])
def test_what_varies_signals_is_refused_for_images_and_tables(setting: dict[str, object]) -> None:
    with pytest.raises(
        ConfigError, match=r"must be off for digits, .* applies to signals, and this is a set of images"
    ):
        load(data_config("digits", **setting))
    with pytest.raises(ConfigError, match=r"must be off for diabetes, .* applies to signals, and this is a table"):
        load(data_config("diabetes", **setting))


def test_other_signals_are_read_without_labels(tmp_path: Path) -> None:
    given = signal_arrays()
    like = signals(write_npz(tmp_path / "a.npz", given))
    path = write_npz(tmp_path / "b.npz", {"signals": given["test_signals"]})
    assert load_others(str(path), like).shape == (12, 2, 9)


def table(tmp_path: Path, given: list[dict[str, Any]], **settings: Any) -> Dataset:
    path = write_csv(tmp_path / "t.csv", given)
    return load(data_config(path, **{"task": "classification", "target": "kind", "kind": "signals", **settings}))


def test_a_row_is_a_signal_in_the_order_of_the_columns(tmp_path: Path) -> None:
    given = signal_rows()
    dataset = table(tmp_path, given)
    steps = [name for name in given[0] if name != "kind"]
    whole = np.array([[row[name] for name in steps] for row in given], dataset.train.inputs.dtype)
    found = np.concatenate([dataset.split(name).inputs[:] for name in ("train", "val", "test")])
    assert dataset.spec.shape == (1, 7)
    assert sorted(found[:, 0].tolist()) == sorted(whole.tolist())
    assert dataset.columns is not None
    assert [column.name for column in dataset.columns] == steps
    assert len(dataset.normalisation.mean) == 1


def test_a_table_stays_a_table_unless_told_otherwise(tmp_path: Path) -> None:
    assert table(tmp_path, signal_rows(), kind=None).spec.kind is SampleKind.TABLE
    assert table(tmp_path, signal_rows(), kind="table").spec.kind is SampleKind.TABLE


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"t3": "high"}, "one time step each, got texts in column 't3' of"),
        ({"t3": ""}, "signals must have no missing values, got one in row 5, column 't3' of"),
    ],
)
def test_a_row_that_is_no_signal_is_refused(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    given = signal_rows()
    given[4] |= change
    with pytest.raises(DataError, match=problem):
        table(tmp_path, given)
