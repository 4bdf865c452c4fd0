from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import DataError
from sae.core.task import Classification
from sae.data import image_tree
from sae.data.catalogue import load, suggestions
from tests.data.samples import data_config, image_bytes, tiny_files, write_folder, write_zip


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_zip(tmp_path / "some.zip", tiny_files(), root="tiny-imagenet-200/")


def test_the_official_val_split_is_the_test_split(archive: Path) -> None:
    np.testing.assert_array_equal(load(data_config(archive)).test.targets, [0, 1, 2, 0, 1, 2])


def test_a_tenth_of_each_class_is_held_out(archive: Path) -> None:
    np.testing.assert_array_equal(np.bincount(load(data_config(archive)).val.targets), [2, 2, 2])


def test_train_and_val_are_all_of_the_training_images(archive: Path) -> None:
    dataset = load(data_config(archive))
    together = np.concatenate([dataset.train.inputs[:], dataset.val.inputs[:]]).reshape(60, -1)
    assert len(np.unique(together, axis=0)) == 60


def test_the_runs_seed_chooses_the_validation_images(archive: Path) -> None:
    one, again, other = (load(data_config(archive), seed).val.inputs[:] for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_labels_follow_the_order_of_wnids(archive: Path) -> None:
    dataset = load(data_config(archive))
    red = dataset.train.inputs[:][:, 0].mean(axis=(1, 2))
    np.testing.assert_array_equal(red // 80, dataset.train.targets)


def test_classes_are_called_by_their_first_word_or_their_id(archive: Path) -> None:
    assert load(data_config(archive)).class_names == ("n03", "goldfish", "bullfrog")


def test_gray_images_become_rgb(archive: Path) -> None:
    dataset = load(data_config(archive))
    assert (dataset.spec.shape, dataset.spec.task) == ((3, 8, 8), Classification(3))


def test_the_unpacked_folder_reads_as_the_zip(archive: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "unpacked", tiny_files())
    one, other = load(data_config(archive)), load(data_config(folder))
    np.testing.assert_array_equal(one.train.inputs[:], other.train.inputs[:])


def test_a_set_in_this_layout_suggests_the_papers_settings(archive: Path) -> None:
    layer = suggestions(str(archive))
    assert layer["backbone"]["name"] == "resnet"
    assert layer["train"] == {"epochs": 100, "batch_size": 128, "weight_decay": 0.0}


def test_the_catalogues_set_must_have_all_classes(tmp_path: Path) -> None:
    write_folder(tmp_path / "root" / "tiny-imagenet-200", tiny_files())
    with pytest.raises(DataError, match="must hold the 200 classes of tinyimagenet, got 3: give its path"):
        load(data_config("tinyimagenet"))


def test_a_zip_that_is_not_the_published_one_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    write_zip(tmp_path / "root" / "tiny-imagenet-200.zip", tiny_files())
    with pytest.raises(DataError, match="must be the published file"):
        load(data_config("tinyimagenet"))


def test_an_annotation_of_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    files = tiny_files() | {"val/val_annotations.txt": b"val_0.JPEG\tn01\nval_99.JPEG\tn01\n"}
    path = write_zip(tmp_path / "some.zip", files)
    with pytest.raises(DataError, match=r"line 2 of .*val_annotations\.txt must name an image"):
        load(data_config(path))


def test_an_image_of_another_size_is_named(tmp_path: Path) -> None:
    files = tiny_files() | {"train/n01/images/n01_3.JPEG": image_bytes(0, (9, 8), suffix="jpeg")}
    with pytest.raises(DataError, match=r"all images must be 8×8, but .*n01_3\.JPEG is 9×8"):
        load(data_config(write_zip(tmp_path / "some.zip", files)))


def test_a_list_of_classes_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "some.zip", tiny_files() | {"wnids.txt": b"\xff"})
    with pytest.raises(DataError, match=r"wnids\.txt must be text in UTF-8"):
        load(data_config(path))


def test_a_folder_of_all_classes_is_the_catalogues_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_tree, "NUM_CLASSES", 3)
    write_folder(tmp_path / "root" / "tiny-imagenet-200", tiny_files())
    assert load(data_config("tinyimagenet")).spec.task == Classification(3)


def test_a_class_that_is_not_listed_is_named(tmp_path: Path) -> None:
    files = tiny_files() | {"train/n77/images/a.JPEG": image_bytes(0, suffix="jpeg")}
    with pytest.raises(DataError, match=r"wnids\.txt must list every class, but .*train/n77/images/a\.JPEG"):
        load(data_config(write_zip(tmp_path / "some.zip", files)))
