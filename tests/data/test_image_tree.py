from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sae.core.errors import ConfigError, DataError
from sae.data.catalogue import load, suggestions
from tests.data.samples import class_files, data_config, image_bytes, write_folder, write_zip


def in_splits(*splits: str, count: int = 10) -> dict[str, bytes]:
    return {f"{split}/{name}": content for split in splits for name, content in class_files(count).items()}


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        load(data_config(path))
    return str(caught.value)


def test_folders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    assert load(data_config(write_folder(tmp_path / "a", class_files()))).class_names == ("cat", "dog")


def test_a_folder_of_classes_is_split_in_equal_shares(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", class_files())))
    counts = [np.bincount(dataset.split(name).targets).tolist() for name in ("train", "val", "test")]
    assert counts == [[6, 6], [2, 2], [2, 2]]


def test_every_image_keeps_its_class(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", class_files())))
    for name in ("train", "val", "test"):
        split = dataset.split(name)
        np.testing.assert_array_equal(split.inputs[:][:, 0, 0, 0] >= 100, split.targets == 1)


def test_splits_that_are_there_are_kept(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", in_splits("train", "val", "test"))))
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (20, 20, 20)


def test_validation_images_are_taken_from_train_if_there_are_none(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", in_splits("train", "test"))))
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (18, 2, 20)


def test_normalisation_is_that_of_the_training_images(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", class_files())))
    pixels = dataset.train.inputs[:].astype(np.float64)
    np.testing.assert_allclose(dataset.normalisation.mean, pixels.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(dataset.normalisation.std[0], pixels.std(axis=(0, 2, 3))[0])


def test_a_zip_reads_as_the_folder(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a", class_files())
    archive = write_zip(tmp_path / "a.zip", class_files(), root="pets/")
    one, other = load(data_config(folder)), load(data_config(archive))
    np.testing.assert_array_equal(one.train.inputs[:], other.train.inputs[:])


def test_gray_images_have_one_channel(tmp_path: Path) -> None:
    assert load(data_config(write_folder(tmp_path / "a", class_files(mode="L")))).spec.shape == (1, 8, 8)


def test_one_image_in_colour_makes_all_rgb(tmp_path: Path) -> None:
    files = class_files(mode="L") | {"cat/99.png": image_bytes(0)}
    assert load(data_config(write_folder(tmp_path / "a", files))).spec.shape == (3, 8, 8)


def test_hidden_and_other_files_are_passed_over(tmp_path: Path) -> None:
    files = class_files() | {".DS_Store": b"", "cat/.01.png": b"", "cat/readme.txt": b"", "__MACOSX/cat/1.png": b""}
    dataset = load(data_config(write_folder(tmp_path / "a", files)))
    assert len(dataset.train) + len(dataset.val) + len(dataset.test) == 20


@pytest.mark.parametrize(("side", "backbone"), [(8, "fc"), (16, "vgg")])
def test_a_backbone_is_suggested_by_the_side(tmp_path: Path, side: int, backbone: str) -> None:
    path = write_folder(tmp_path / "a", class_files(size=(side, side)))
    assert suggestions(str(path))["backbone"] == {"name": backbone}


def test_an_image_of_another_size_is_named(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files() | {"dog/big.png": image_bytes(0, (9, 8))})
    assert f"{path}/dog/big.png is 9×8 and {path}/cat/00.png is 8×8: resize them" in refusal(path)


def test_an_unreadable_image_is_named(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files() | {"dog/bad.png": b"hello"})
    assert f"{path}/dog/bad.png must be an image" in refusal(path)


def test_an_image_cut_short_is_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)
    buffer = BytesIO()
    Image.fromarray(noise).save(buffer, "png")
    path = write_folder(tmp_path / "a", class_files() | {"dog/cut.png": buffer.getvalue()[:120]})
    assert f"{path}/dog/cut.png is damaged and cannot be decoded" in refusal(path)


def test_images_of_16_bits_are_refused(tmp_path: Path) -> None:
    buffer = BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(buffer, "png")
    path = write_folder(tmp_path / "a", class_files() | {"dog/deep.png": buffer.getvalue()})
    assert "8 bits per channel, got mode I;16 in" in refusal(path)


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files() | {"dog/wide.png": image_bytes(0, (5000, 1))})
    assert f"at most 4096 pixels wide and high, got 5000×1 in {path}/dog/wide.png" in refusal(path)


def test_a_single_class_is_refused(tmp_path: Path) -> None:
    files = {name: content for name, content in class_files().items() if name.startswith("cat")}
    assert "at least 2 classes, got ['cat']" in refusal(write_folder(tmp_path / "a", files))


def test_an_image_outside_of_every_class_is_named(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files() | {"loose.png": image_bytes(0)})
    assert f"but {path}/loose.png is not" in refusal(path)


def test_a_class_without_training_images_is_named(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", in_splits("train", "test") | {"test/bird/0.png": image_bytes(0)})
    assert f"'bird' of {path}/test/bird/0.png has none" in refusal(path)


def test_a_folder_without_a_test_split_says_what_to_do(tmp_path: Path) -> None:
    assert "rename val to test" in refusal(write_folder(tmp_path / "a", in_splits("train", "val")))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert "must hold images" in refusal(tmp_path / "a")


def test_too_few_images_to_split_are_refused(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files(2))
    assert "at least 5 samples of each class to be split into train, val and test, got 2" in refusal(path)


def test_a_regression_of_classes_is_refused(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files())
    with pytest.raises(ConfigError, match=r"data\.task must be classification for .*, got regression"):
        load(data_config(path, task="regression"))
