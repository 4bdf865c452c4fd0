from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sae.core.errors import ConfigError, DataError
from sae.data.catalogue import load, resolve, suggestions
from sae.data.dataset import Array
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
    assert f"{path}/dog/big.png is 9×8 and {path}/cat/00.png is 8×8: resize them when they are read" in refusal(path)
    assert "--resize 64" in refusal(path)


def test_an_unreadable_image_is_named(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files() | {"dog/bad.png": b"hello"})
    assert f"{path}/dog/bad.png must be an image" in refusal(path)


def test_an_image_cut_short_is_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)
    buffer = BytesIO()
    Image.fromarray(noise).save(buffer, "png")
    path = write_folder(tmp_path / "a", class_files() | {"dog/cut.png": buffer.getvalue()[:120]})
    assert f"{path}/dog/cut.png is damaged and cannot be decoded" in refusal(path)


def deep_image(values: Array) -> bytes:
    buffer = BytesIO()
    Image.fromarray(values).save(buffer, "tiff")
    return buffer.getvalue()


def deep_files(dtype: type[np.generic], count: int = 10) -> dict[str, bytes]:
    """Images of two classes in 16 bits or on any scale."""
    rng = np.random.default_rng(0)
    return {
        f"{name}/{index:02}.tif": deep_image((60000 * rng.random((8, 8))).astype(dtype))
        for name in ("cat", "dog")
        for index in range(count)
    }


def test_images_of_8_and_16_bits_are_not_mixed(tmp_path: Path) -> None:
    files = class_files() | {"dog/deep.tif": deep_image(np.zeros((8, 8), np.uint16))}
    path = write_folder(tmp_path / "a", files)
    assert f"but {path}/dog/deep.tif has 16 and {path}/cat/00.png has 8: convert them" in refusal(path)


@pytest.mark.parametrize(("dtype", "depth"), [(np.uint16, 16), (np.float32, 32)])
def test_deep_images_keep_every_bit(tmp_path: Path, dtype: type[np.generic], depth: int) -> None:
    files = deep_files(dtype)
    dataset = load(data_config(write_folder(tmp_path / "a", files)))
    assert dataset.depth == depth
    kept = np.concatenate([dataset.split(name).inputs[:] for name in ("train", "val", "test")])
    given = np.stack([np.asarray(Image.open(BytesIO(content))).astype(np.float32) for content in files.values()])
    assert kept.dtype == np.float32
    np.testing.assert_array_equal(np.sort(kept.ravel()), np.sort(given.ravel()))


def test_normalisation_of_deep_images_is_that_of_the_training_images(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", deep_files(np.uint16))))
    pixels = dataset.train.inputs[:].astype(np.float64)
    np.testing.assert_allclose(dataset.normalisation.mean, pixels.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(dataset.normalisation.std, pixels.std(axis=(0, 2, 3)))


def test_a_pixel_that_is_not_finite_is_named(tmp_path: Path) -> None:
    broken = deep_image(np.full((8, 8), np.nan, np.float32))
    path = write_folder(tmp_path / "a", deep_files(np.float32) | {"dog/nan.tif": broken})
    assert f"pixels must be finite, got nan at [0, 0] in {path}/dog/nan.tif" in refusal(path)


def mixed_files() -> dict[str, bytes]:
    """Images of many sizes, in gray and in colour."""
    rng = np.random.default_rng(0)
    files = {}
    for index, (height, width) in enumerate(rng.integers(5, 60, (40, 2))):
        buffer = BytesIO()
        noise = Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))
        noise.convert("L" if index % 3 == 0 else "RGB").save(buffer, "png")
        files[f"{'cat' if index % 2 else 'dog'}/{index:02}.png"] = buffer.getvalue()
    return files


@pytest.mark.parametrize("fit", ["stretch", "pad", "crop"])
def test_images_of_many_sizes_are_resized(tmp_path: Path, fit: str) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", mixed_files()), resize="12x20", fit=fit))
    assert dataset.spec.shape == (3, 12, 20)
    assert dataset.fit == fit


def test_the_cache_tells_sizes_apart(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", mixed_files())
    sides = [load(data_config(path, resize=side)).spec.shape[1] for side in (8, 16)]
    assert sides == [8, 16]


def test_the_backbone_is_suggested_by_the_side_after_resizing(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files())
    assert resolve({"data": {"name": str(path)}}).backbone.name == "fc"
    assert resolve({"data": {"name": str(path), "resize": 32}}).backbone.name == "vgg"


def test_resizing_is_refused_where_it_has_no_effect(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.resize has no effect on digits"):
        load(data_config("digits", resize=32))
    with pytest.raises(ConfigError, match=r"data\.fit has no effect without data\.resize, got pad"):
        load(data_config(write_folder(tmp_path / "a", class_files()), fit="pad"))


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files() | {"dog/wide.png": image_bytes(0, (5000, 1))})
    assert f"at most 4096 pixels wide and high, got 5000×1 in {path}/dog/wide.png: add --resize" in refusal(path)


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
