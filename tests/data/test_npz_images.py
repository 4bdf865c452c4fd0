import re
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import ConfigError, DataError, DataWarning
from sae.core.task import Classification, Regression
from sae.data.catalogue import load, load_others, suggestions
from sae.data.dataset import Array
from tests.data.samples import data_config, npz_arrays, write_npz


def test_images_come_channels_first_and_unchanged(tmp_path: Path) -> None:
    arrays = npz_arrays(channels=3)
    path = write_npz(tmp_path / "a.npz", arrays)
    dataset = load(data_config(path, task="classification"))
    np.testing.assert_array_equal(dataset.test.inputs[:], arrays["test_images"].transpose(0, 3, 1, 2))


def test_the_order_of_an_array_in_memory_does_not_matter(tmp_path: Path) -> None:
    arrays = npz_arrays()
    path = write_npz(tmp_path / "a.npz", test_images=np.asfortranarray(arrays["test_images"]))
    dataset = load(data_config(path, task="classification"))
    np.testing.assert_array_equal(dataset.test.inputs[:], arrays["test_images"][:, None])


def test_an_array_that_is_shorter_than_it_says_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", leave_out=("train_images",))
    buffer = BytesIO()
    np.save(buffer, npz_arrays()["train_images"])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("train_images.npy", buffer.getvalue()[:-100])
    assert "train_images of" in refusal(path)


def test_gray_images_get_one_channel(tmp_path: Path) -> None:
    dataset = load(data_config(write_npz(tmp_path / "a.npz"), task="classification"))
    assert dataset.spec.shape == (1, 8, 8)


def test_images_of_28_get_a_black_frame(tmp_path: Path) -> None:
    arrays = npz_arrays(side=28)
    inputs = load(data_config(write_npz(tmp_path / "a.npz", arrays), task="classification")).train.inputs[:]
    np.testing.assert_array_equal(inputs, np.pad(arrays["train_images"][:, None], ((0, 0), (0, 0), (2, 2), (2, 2))))


def test_normalisation_is_that_of_the_training_pixels_without_the_frame(tmp_path: Path) -> None:
    arrays = npz_arrays(side=28, channels=3)
    normalisation = load(data_config(write_npz(tmp_path / "a.npz", arrays), task="classification")).normalisation
    pixels = arrays["train_images"].reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(normalisation.mean, pixels.mean(axis=0))
    np.testing.assert_allclose(normalisation.std, pixels.std(axis=0))


@pytest.mark.parametrize("shape", [(30,), (30, 1)])
def test_labels_may_have_a_second_dimension_of_one(tmp_path: Path, shape: tuple[int, ...]) -> None:
    labels = (np.arange(30) % 3).reshape(shape)
    dataset = load(data_config(write_npz(tmp_path / "a.npz", train_labels=labels), task="classification"))
    np.testing.assert_array_equal(dataset.train.targets, np.arange(30) % 3)


def test_classes_are_counted_on_the_training_labels(tmp_path: Path) -> None:
    assert load(data_config(write_npz(tmp_path / "a.npz"), task="classification")).spec.task == Classification(3)


def test_targets_of_a_regression_are_standardised_on_the_training_split(tmp_path: Path) -> None:
    values = np.linspace(-3, 90, 30)
    dataset = load(data_config(write_npz(tmp_path / "a.npz", train_labels=values), task="regression"))
    assert isinstance(dataset.spec.task, Regression)
    assert dataset.spec.task.mean == pytest.approx(values.mean(), rel=1e-6)
    assert dataset.spec.task.std == pytest.approx(values.std(), rel=1e-6)


def test_a_missing_val_split_is_taken_from_train(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", leave_out=("val_images", "val_labels"))
    dataset = load(data_config(path, task="classification"))
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (27, 3, 12)


def test_a_val_split_of_our_own_shares_no_image_with_train(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", leave_out=("val_images", "val_labels"))
    dataset = load(data_config(path, task="classification"))
    together = np.concatenate([dataset.train.inputs[:], dataset.val.inputs[:]]).reshape(30, -1)
    assert len(np.unique(together, axis=0)) == 30


def test_the_split_seed_chooses_the_val_split(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", leave_out=("val_images", "val_labels"))
    one, other = (load(data_config(path, task="classification", split_seed=seed)).val.inputs[:] for seed in (0, 1))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(("side", "backbone"), [(8, "fc"), (15, "fc"), (16, "vgg"), (28, "vgg")])
def test_a_backbone_is_suggested_by_the_side_of_the_images(tmp_path: Path, side: int, backbone: str) -> None:
    path = write_npz(tmp_path / "a.npz", npz_arrays(side=side))
    assert suggestions(str(path))["backbone"] == {"name": backbone}


def test_the_task_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.task must be set for .*a\.npz: --task classification or"):
        load(data_config(write_npz(tmp_path / "a.npz")))


def refusal(path: Path, task: str = "classification") -> str:
    with pytest.raises(DataError) as caught:
        load(data_config(path, task=task))
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_file_without_the_keys_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", leave_out=("test_labels",))
    assert re.search(
        r"must hold samples and labels for training and for test, but test_labels is missing", refusal(path)
    )


def test_val_images_without_labels_are_refused(tmp_path: Path) -> None:
    assert "val_labels is missing" in refusal(write_npz(tmp_path / "a.npz", leave_out=("val_labels",)))


def test_images_of_another_dtype_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", val_images=np.zeros((9, 8, 8), np.float32))
    assert "one size and type, got float32 of shape (9, 8, 8) in val_images and uint8" in refusal(path)
    path = write_npz(tmp_path / "b.npz", train_images=np.zeros((30, 8, 8), bool))
    assert "images must be numbers, got bool in train_images" in refusal(path)


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    path = write_npz(
        tmp_path / "a.npz", test_images=np.zeros((0, 8, 8), np.uint8), test_labels=np.zeros((0, 1), np.uint8)
    )
    assert "every split must hold samples, but test_images" in refusal(path)


@pytest.mark.parametrize("label", [0, 2])
def test_a_single_class_is_refused(tmp_path: Path, label: int) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.full((30, 1), label))
    assert f"at least 2 classes, got [{label}] in train_labels" in refusal(path)


def test_labels_as_floats_are_refused_for_classification(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.linspace(0, 1, 30))
    assert "labels must be integers for classification, got float64 in train_labels" in refusal(path)


def test_as_many_labels_for_a_sample_in_all_splits_are_needed(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.zeros((30, 14), np.uint8))
    assert "targets must be 14 numbers for each sample, got shape" in refusal(path)


def test_a_label_that_was_not_trained_is_named(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", test_labels=np.full((12, 1), 7))
    assert "got 7 at index 0 of the test split" in refusal(path)


def test_fewer_labels_than_images_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.zeros((29, 1), np.uint8))
    assert "one label for each image, got 30 and 29" in refusal(path)


@pytest.mark.parametrize("shape", [(30, 8), (30, 8, 8, 8), (30, 8, 8, 8, 3)])
def test_arrays_that_are_no_images_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = write_npz(tmp_path / "a.npz", train_images=np.zeros(shape, np.uint8))
    assert f"got {shape} in train_images" in refusal(path)


def test_images_of_two_sizes_in_two_splits_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", test_images=np.zeros((12, 9, 9), np.uint8))
    assert "got uint8 of shape (12, 9, 9) in test_images and uint8 of shape (30, 8, 8) in train_images of" in refusal(
        path
    )
    assert load(data_config(path, task="classification", resize=8)).spec.shape == (1, 8, 8)


def renamed(arrays: dict[str, Array]) -> dict[str, Array]:
    """Training and test arrays under the names that Keras uses."""
    return {
        f"{letter}_{split}": arrays[f"{split}_{part}"]
        for split in ("train", "test")
        for letter, part in (("x", "images"), ("y", "labels"))
    }


def test_arrays_named_x_and_y_read_like_images_and_labels(tmp_path: Path) -> None:
    arrays = npz_arrays(channels=3)
    kept = {name: array for name, array in arrays.items() if not name.startswith("val")}
    one = load(data_config(write_npz(tmp_path / "a.npz", kept), task="classification"))
    other = load(data_config(write_npz(tmp_path / "b.npz", renamed(arrays)), task="classification"))
    for split in ("train", "val", "test"):
        np.testing.assert_array_equal(one.split(split).inputs[:], other.split(split).inputs[:])
        np.testing.assert_array_equal(one.split(split).targets, other.split(split).targets)


def test_images_without_splits_are_split_in_equal_shares(tmp_path: Path) -> None:
    arrays = npz_arrays()
    path = write_npz(tmp_path / "a.npz", {"images": arrays["train_images"], "labels": arrays["train_labels"]})
    dataset = load(data_config(path, task="classification"))
    counts = [np.bincount(dataset.split(name).targets).tolist() for name in ("train", "val", "test")]
    assert counts == [[6, 6, 6], [2, 2, 2], [2, 2, 2]]


def test_values_without_splits_are_standardised_on_the_training_split(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", {"images": npz_arrays()["train_images"], "labels": np.linspace(0, 9, 30)})
    dataset = load(data_config(path, task="regression"))
    assert isinstance(dataset.spec.task, Regression)
    assert dataset.spec.task.mean == pytest.approx(dataset.train.targets.astype(np.float64).mean())
    assert len(dataset.train) == 18


def test_labels_may_be_texts(tmp_path: Path) -> None:
    names = np.array(["red", "green", "blue"])
    path = write_npz(tmp_path / "a.npz", {"images": npz_arrays()["train_images"], "labels": names[np.arange(30) % 3]})
    assert load(data_config(path, task="classification")).class_names == ("blue", "green", "red")


def test_channels_may_come_first_or_last(tmp_path: Path) -> None:
    last = npz_arrays(channels=3)
    first = {name: array.transpose(0, 3, 1, 2) if "images" in name else array for name, array in last.items()}
    one = load(data_config(write_npz(tmp_path / "a.npz", last), task="classification"))
    other = load(data_config(write_npz(tmp_path / "b.npz", first), task="classification"))
    np.testing.assert_array_equal(one.train.inputs[:], other.train.inputs[:])


def test_channels_that_could_be_first_or_last_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_images=np.zeros((30, 3, 8, 3), np.uint8))
    assert "got shape (30, 3, 8, 3), where both are possible" in refusal(path)


def test_a_channel_of_transparency_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_images=np.zeros((30, 8, 8, 4), np.uint8))
    assert "leave out the fourth channel, alpha" in refusal(path)


@pytest.mark.parametrize(
    ("dtype", "depth"), [(np.uint16, 16), (np.int16, 32), (np.float32, 32), (np.float64, 32), (np.int64, 32)]
)
def test_other_numbers_than_bytes_are_kept(tmp_path: Path, dtype: type[np.generic], depth: int) -> None:
    arrays = {
        name: (array.astype(np.float64) * 101 - 7 * (depth == 32)).astype(dtype) if "images" in name else array
        for name, array in npz_arrays().items()
    }
    dataset = load(data_config(write_npz(tmp_path / "a.npz", arrays), task="classification"))
    assert dataset.depth == depth
    np.testing.assert_array_equal(dataset.test.inputs[:][:, 0], arrays["test_images"].astype(np.float32))


def test_a_pixel_that_is_not_finite_is_named(tmp_path: Path) -> None:
    images = np.zeros((30, 8, 8))
    images[4, 2, 3] = np.inf
    path = write_npz(tmp_path / "a.npz", {"images": images, "labels": np.arange(30) % 3})
    assert "got inf at [0, 2, 3] in sample 4 of images" in refusal(path)


def test_whole_numbers_that_float32_would_round_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", {"images": np.full((30, 8, 8), 2**24 + 1), "labels": np.arange(30) % 3})
    assert "at most 16,777,216, got 16,777,217 in sample 0 of images" in refusal(path)


def test_images_of_28_get_no_frame_if_they_are_resized(tmp_path: Path) -> None:
    dataset = load(data_config(write_npz(tmp_path / "a.npz", npz_arrays(side=28)), task="classification", resize=28))
    assert (dataset.spec.shape, dataset.frame) == ((1, 28, 28), 0)


def test_other_images_are_resized_like_those_of_the_run(tmp_path: Path) -> None:
    like = load(data_config(write_npz(tmp_path / "a.npz"), task="classification", resize=12, fit="crop"))
    other = write_npz(tmp_path / "b.npz", {"images": npz_arrays(side=17)["test_images"]})
    assert load_others(str(other), like).shape == (12, 1, 12, 12)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.array([{}] * 30, object))
    assert "train_labels" in refusal(path)


def test_a_constant_target_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.full(30, 2.5))
    assert "targets must vary" in refusal(path, "regression")


def test_a_target_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.array([np.nan, *range(29)]))
    assert "targets must be finite, got nan at index 0 of train_labels" in refusal(path, "regression")


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"hello")
    assert "must be a zip archive" in refusal(path)


def test_texts_as_targets_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", train_labels=np.array(["one"] * 30))
    assert "targets must be numbers, got <U3 in train_labels" in refusal(path, "regression")


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz")
    path.write_bytes(path.read_bytes()[:-400])
    assert "cannot be opened" in refusal(path)


def test_pixels_whose_spread_is_lost_are_said(tmp_path: Path) -> None:
    images = 1e9 + np.random.default_rng(0).normal(0, 1, (30, 8, 8))
    path = write_npz(tmp_path / "a.npz", {"images": images, "labels": np.arange(30) % 3})
    with pytest.warns(DataWarning, match=r"have lost their spread: float32 cannot distinguish numbers around 1e\+09"):
        load(data_config(path, task="classification"))
