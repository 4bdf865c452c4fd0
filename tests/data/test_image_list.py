"""Tables that name image files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.core.errors import ConfigError, DataError
from sae.core.task import Classification, Regression, SampleKind
from sae.data.catalogue import find_entry, load
from sae.data.dataset import Dataset
from tests.data.samples import data_config, image_bytes, table_rows, write_csv, write_folder


def write_list(folder: Path, count: int = 20, **changes: Any) -> Path:
    """A table of red and blue images in two folders, of which one is not beside the table."""
    rows: list[dict[str, Any]] = []
    for index in range(count):
        name = f"deep/{index:02}.png"
        write_folder(folder, {name: image_bytes(200 * (index % 2) + index)})
        rows.append({"label": ("blue", "red")[index % 2], "file": name, "patient": index // 2, "level": index / 2})
    rows[0] |= changes
    return write_csv(folder / "list.csv", rows)


def read(path: Path, **settings: Any) -> Dataset:
    return load(data_config(path, **{"task": "classification", "target": "label", **settings}))


def refusal(path: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(path, **settings)
    return str(caught.value)


def test_a_table_of_images_is_recognised_by_its_first_row(tmp_path: Path) -> None:
    assert find_entry(str(write_list(tmp_path))).kind is SampleKind.IMAGES
    assert find_entry(str(write_csv(tmp_path / "t.csv", table_rows()))).kind is SampleKind.TABLE
    assert find_entry(str(write_list(tmp_path)), SampleKind.TABLE).kind is SampleKind.TABLE


def test_a_parquet_table_of_images_is_recognised_and_read_like_a_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    path = write_list(tmp_path)
    same = path.with_suffix(".parquet")
    parquet.write_table(csv.read_csv(path), same)
    assert find_entry(str(same)).kind is SampleKind.IMAGES
    np.testing.assert_array_equal(read(same).train.inputs, read(path).train.inputs)
    numbers = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(table_rows()), numbers)
    assert find_entry(str(numbers)).kind is SampleKind.TABLE


def test_every_image_keeps_its_label(tmp_path: Path) -> None:
    dataset = read(write_list(tmp_path))
    assert dataset.class_names == ("blue", "red")
    assert dataset.spec.task == Classification(2)
    assert [len(dataset.split(name)) for name in ("train", "val", "test")] == [12, 4, 4]
    for name in ("train", "val", "test"):
        split = dataset.split(name)
        np.testing.assert_array_equal(split.inputs[:][:, 0, 0, 0] >= 200, split.targets == 1)


def test_normalisation_is_that_of_the_training_images(tmp_path: Path) -> None:
    dataset = read(write_list(tmp_path))
    np.testing.assert_allclose(dataset.normalisation.mean, dataset.train.inputs[:].mean(axis=(0, 2, 3)))


def test_values_can_be_predicted_from_images(tmp_path: Path) -> None:
    dataset = read(write_list(tmp_path), task="regression", target="level")
    assert isinstance(dataset.spec.task, Regression)
    red = dataset.test.inputs[:][:, 0, 0, 0].astype(int)
    np.testing.assert_array_equal(dataset.test.targets, (red % 200) / 2)


def test_paths_may_be_absolute(tmp_path: Path) -> None:
    other = write_folder(tmp_path / "elsewhere", {"a.png": image_bytes(0)}) / "a.png"
    assert len(read(write_list(tmp_path / "table", file=str(other))).train) == 12


def test_images_are_resized(tmp_path: Path) -> None:
    write_folder(tmp_path, {"big.png": image_bytes(0, (30, 20))})
    path = write_list(tmp_path, file="big.png")
    assert "big.png is 30×20" in refusal(path) or "is 8×8" in refusal(path)
    assert read(path, resize=16).spec.shape == (3, 16, 16)


def test_an_image_that_changes_is_decoded_again(tmp_path: Path) -> None:
    path = write_list(tmp_path)
    before = read(path)
    write_folder(tmp_path, {f"deep/{index:02}.png": image_bytes(7, (8, 8), "L") for index in range(20)})
    assert (before.spec.shape, read(path).spec.shape) == ((3, 8, 8), (1, 8, 8))


def test_a_missing_image_is_named_with_its_row(tmp_path: Path) -> None:
    path = write_list(tmp_path, file="lost.png")
    assert f"{tmp_path}/lost.png does not (row 1, column 'file')" in refusal(path, kind="images")


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path, {"bad.png": b"hello"})
    assert f"{tmp_path}/bad.png must be an image" in refusal(write_list(tmp_path, file="bad.png"))


def test_a_table_without_images_is_refused_if_they_are_asked_for(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", table_rows())
    assert "must have one column of image files, without empty rows, got none" in refusal(path, kind="images")


def test_two_columns_of_images_are_refused(tmp_path: Path) -> None:
    rows = [{"one": "a.png", "other": "a.png", "label": "ab"[index % 2]} for index in range(20)]
    write_folder(tmp_path, {"a.png": image_bytes(0)})
    assert "got 'one', 'other'" in refusal(write_csv(tmp_path / "t.csv", rows))


def test_the_target_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.target must name the column of .*list\.csv"):
        read(write_list(tmp_path), target=None)


def test_groups_stay_in_one_split(tmp_path: Path) -> None:
    dataset = read(write_list(tmp_path), group="patient")  # rows 2n and 2n + 1 are of one patient
    for name in ("train", "val", "test"):
        rows = np.sort(dataset.split(name).inputs[:][:, 0, 0, 0].astype(int) % 200)
        assert np.unique(rows // 2, return_counts=True)[1].tolist() == [2] * (len(rows) // 2)


def test_a_table_may_be_separated_by_semicolons(tmp_path: Path) -> None:
    path = write_list(tmp_path)
    path.write_text(path.read_text().replace(",", ";"))
    assert len(read(path).train) == 12
