"""What is unusual about columns is told or refused, for files and for tables in memory alike."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sae.core.errors import DataError, DataWarning
from sae.data.catalogue import load
from sae.data.columns import Column, Reading
from sae.data.dataset import Dataset
from sae.data.frames import column_of, dataset_of, frame_columns
from sae.data.profile import check_usable
from tests.data.samples import data_config

ROWS = 600


def column(values: list[Any]) -> Column:
    return Column("c", np.array(values, object if any(isinstance(value, str) for value in values) else float))


def numbers(**changed: object) -> list[object]:
    """Numbers that are all different; `row_7="?"` changes a row."""
    values: list[object] = [float(row) / 7 for row in range(ROWS)]
    for key, value in changed.items():
        values[int(key.removeprefix("row_"))] = value
    return values


def read(path: Path, x: list[object], *, as_parquet: bool = False, **settings: Any) -> Dataset:
    """A table of `x`, another column and the target, read from a file."""
    texts = [str(value) for value in x]
    frame = pd.DataFrame({"x": texts, "z": np.arange(ROWS) % 3, "y": np.arange(ROWS) % 2})
    file = path / ("t.parquet" if as_parquet else "t.csv")
    frame.to_parquet(file) if as_parquet else frame.to_csv(file, index=False)
    return load(data_config(file, task="classification", target="y", **settings))


@pytest.mark.parametrize("mark", ["?", "-", "--", "#N/A", "unknown", "#DIV/0!"])
@pytest.mark.parametrize("as_parquet", [False, True])
def test_a_mark_among_numbers_is_a_missing_number_and_named(tmp_path: Path, mark: str, as_parquet: bool) -> None:
    with pytest.warns(DataWarning, match="has marks among numbers, which are read as missing values: ") as told:
        found = read(tmp_path, numbers(row_7=mark, row_9=mark), as_parquet=as_parquet)
    assert f"{mark!r} in 'x'" in str(told[0].message)
    assert found.columns is not None
    assert found.columns[0].is_numeric
    assert found.columns[0].missing == (mark,)
    assert found.spec.shape == (3,)  # the number, whether it is missing, z


def test_a_data_frame_is_read_like_the_file_with_its_content(tmp_path: Path) -> None:
    x = numbers(row_7="?", row_8=" ")
    with pytest.warns(DataWarning, match="marks"):
        expected = read(tmp_path, x)
    frame = pd.DataFrame({"x": [str(value) for value in x], "z": np.arange(ROWS) % 3})
    rows = (np.arange(400), np.arange(400, 600))
    with pytest.warns(DataWarning, match="marks"):
        found = dataset_of(frame_columns(frame, Reading(), "X"), np.arange(ROWS) % 2, ("0", "1"), rows, "X")
    assert expected.columns is not None
    assert found.columns is not None
    assert [item.missing for item in found.columns] == [item.missing for item in expected.columns]
    assert found.spec == expected.spec


def test_texts_among_numbers_are_categories_and_named(tmp_path: Path) -> None:
    x: list[object] = [row % 5 for row in range(ROWS)]
    x[7] = "5 kg"
    with pytest.warns(DataWarning, match="texts among numbers, so these columns are read as categories: '5 kg' in 'x'"):
        found = read(tmp_path, x)
    assert found.columns is not None
    assert found.columns[0].categories == ("0", "1", "2", "3", "4", "5 kg")


@pytest.mark.parametrize("values", [["?", "a", "b"], ["?", "?", "1"], ["01", "02", "?"]])
def test_a_mark_among_texts_or_codes_is_a_category(values: list[str]) -> None:
    assert column_of("c", values, Reading(), "X").values.tolist() == values


def test_a_known_column_of_numbers_may_hold_marks_alone() -> None:
    found = column_of("c", ["?", "-"], Reading(marks={"c": ()}), "X")
    assert found.is_numeric
    assert found.missing.all()


@pytest.mark.parametrize("as_parquet", [False, True])
def test_the_users_marks_are_missing_however_they_are_spelt(tmp_path: Path, as_parquet: bool) -> None:
    frame = pd.DataFrame(
        {"x": np.arange(ROWS, dtype=float), "t": ["a", "nil"] * (ROWS // 2), "y": [0, 1] * (ROWS // 2)}
    )
    frame.loc[[7, 9], "x"] = -999.0
    file = tmp_path / ("t.parquet" if as_parquet else "t.csv")
    frame.to_parquet(file) if as_parquet else frame.to_csv(file, index=False)
    found = load(data_config(file, task="classification", target="y", missing=["-999", "NIL"]))
    assert found.columns is not None
    number, text = found.columns
    assert number.marks_missing
    assert number.median is not None
    assert number.median > 0
    assert text.categories == ("a",)
    assert text.marks_missing


def test_all_columns_that_cannot_be_used_are_named_at_once() -> None:
    columns = {
        "id": column([f"k{row}" for row in range(ROWS)]),
        "note": column([f"some words about {row}" for row in range(ROWS)]),
        "empty": column([np.nan] * ROWS),
        "fine": column(numbers()),
    }
    named = [Column(name, item.values) for name, item in columns.items()]
    told = (
        r"t.csv has columns that cannot be used: 'id' \(different texts in most rows\), 'note' \(free text, which is "
        r"not supported\), 'empty' \(no value\): leave them out with --ignore id,note,empty"
    )
    with pytest.raises(DataError, match=told):
        check_usable(named, np.arange(ROWS), Path("t.csv"))
    with pytest.raises(DataError, match=r"leave them out$"):
        check_usable(named, np.arange(ROWS), "X")


def test_the_rare_ones_of_many_texts_have_no_feature_and_that_is_said(tmp_path: Path) -> None:
    frame = pd.DataFrame({"city": [f"c{row % 290}" for row in range(3000)], "y": np.arange(3000) % 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(
        DataWarning, match=r"many texts, of which the 256 most frequent count, .*: 'city' \(290 values\)"
    ):
        found = load(data_config(tmp_path / "t.csv", task="classification", target="y"))
    assert found.columns is not None
    assert len(found.columns[0].categories) == 256
    assert found.columns[0].has_others
    inputs = found.train.inputs[:].sum(axis=1)
    assert set(inputs.tolist()) == {0.0, 1.0}


def test_clean_columns_are_told_nothing_about(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path, [row % 50 for row in range(ROWS)])


def test_a_mark_among_the_classes_of_a_target_is_a_class(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(90) % 7, "y": ["0", "1", "unknown"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert load(data_config(tmp_path / "t.csv", task="classification", target="y")).class_names == ("0", "1", "unknown")


@pytest.mark.parametrize("values", [["0", "+", "++", "0"], ["<1", "1", "2", "3"]])
def test_grades_and_bounds_are_no_marks(values: list[str]) -> None:
    assert not column_of("c", values, Reading(), "X").is_numeric


def test_categories_of_a_parquet_file_stay_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame({"grade": pd.Categorical(["1", "2", "3"] * 20), "y": [0, 1] * 30})
    frame.to_parquet(tmp_path / "t.parquet")
    found = load(data_config(tmp_path / "t.parquet", task="classification", target="y"))
    assert found.columns is not None
    assert found.columns[0].categories == ("1", "2", "3")


@pytest.mark.parametrize("given", [[-999.0, 1.5], ["-999", 1.5], [-999, 1.5], np.array([-999.0, 1.5])])
def test_numeric_marks_are_missing_in_memory_too(given: object) -> None:
    assert column_of("c", given, Reading(missing=["-999.0", "-999"]), "X").missing.tolist() == [True, False]


def test_declared_categories_are_not_told_about(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path, ["12-A", *[str(row % 9) for row in range(ROWS - 1)]], categories=["x"])
