import warnings
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.core.errors import ConfigError, DataError, DataWarning, MissingExtraError
from sae.core.task import Classification, Regression
from sae.data.catalogue import load, suggestions
from sae.data.columns import Column, ignoring
from sae.data.dataset import Dataset, Indices, Rows
from sae.data.table import encoded, learn_encoding
from tests.data.samples import data_config, table_rows, write_csv

EVERY_ROW = np.arange(4)


def features(values: list[Any], training: Indices = EVERY_ROW) -> list[list[float]]:
    dtype = object if any(isinstance(value, str) for value in values) else float
    column = Column("c", np.array(values, dtype))
    return encoded({"c": column}, [learn_encoding(column, training)]).T.tolist()  # type: ignore[no-any-return]


def regression(tmp_path: Path, rows: list[dict[str, Any]], target: str = "price") -> Dataset:
    return load(data_config(write_csv(tmp_path / "t.csv", rows), task="regression", target=target))


def classification(tmp_path: Path, rows: list[dict[str, Any]], target: str = "kind") -> Dataset:
    return load(data_config(write_csv(tmp_path / "t.csv", rows), task="classification", target=target))


def changed(row: int, **values: Any) -> list[dict[str, Any]]:
    rows = table_rows()
    rows[row] |= values
    return rows


def test_numbers_are_one_feature() -> None:
    assert features([1, 2, 3, 4]) == [[1, 2, 3, 4]]


def test_texts_are_one_feature_for_each() -> None:
    assert features(["b", "a", "b", "c"]) == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]


def test_a_missing_number_is_the_training_median_and_flagged() -> None:
    assert features([1, np.nan, 3, 8]) == [[1, 3, 3, 8], [0, 1, 0, 0]]


def test_a_missing_text_is_none_of_them_and_flagged() -> None:
    assert features(["a", None, "b", "a"]) == [[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]


def test_the_median_is_learnt_from_training_rows_alone() -> None:
    assert features([1, 3, np.nan, 100], np.array([0, 1]))[0] == [1, 3, 2, 100]


def test_a_text_that_was_not_trained_is_none_of_them() -> None:
    assert features(["a", "b", "new", "a"], np.array([0, 1])) == [[1, 0, 0, 1], [0, 1, 0, 0]]


def test_features_come_in_the_order_of_the_columns(tmp_path: Path) -> None:
    assert regression(tmp_path, table_rows()).spec.shape == (5,)  # age, blue, red, a, b


def test_features_are_standardised_on_the_training_rows(tmp_path: Path) -> None:
    dataset = regression(tmp_path, table_rows())
    np.testing.assert_allclose(dataset.normalisation.mean, dataset.train.inputs[:].mean(axis=0), rtol=1e-6)


def test_numbers_keep_their_digits(tmp_path: Path) -> None:
    rows = [{**row, "age": 1.7e9 + row["age"], "price": 1.7e9 + index} for index, row in enumerate(table_rows())]
    dataset = regression(tmp_path, rows)
    assert len(np.unique(dataset.train.targets)) == len(np.unique(dataset.train.inputs[:][:, 0])) == 24


def test_a_constant_column_is_warned_of(tmp_path: Path) -> None:
    rows = [{"one": 0.1, **row, "same": "x", "hole": "" if index == 3 else 5} for index, row in enumerate(table_rows())]
    with pytest.warns(
        DataWarning,
        match=r"t\.csv has columns with a single value .*: 'one', 'same'; leave them out with --ignore one,same$",
    ) as found:
        regression(tmp_path, rows)
    assert len(found) == 1


def test_a_spread_that_float64_cannot_hold_is_warned_of(tmp_path: Path) -> None:
    rows = [{**row, "age": 1e17 + row["age"]} for row in table_rows()]
    with pytest.warns(DataWarning, match=r"t\.csv has columns whose .* spread is lost in rounding: 'age'; subtract"):
        regression(tmp_path, rows)


def test_the_target_of_a_regression_is_standardised_on_the_training_rows(tmp_path: Path) -> None:
    dataset = regression(tmp_path, table_rows())
    assert isinstance(dataset.spec.task, Regression)
    assert dataset.spec.task.mean == pytest.approx(dataset.train.targets.mean(dtype=np.float64))


def test_classes_are_the_texts_of_the_target(tmp_path: Path) -> None:
    dataset = classification(tmp_path, table_rows())
    assert (dataset.spec.task, dataset.class_names) == (Classification(2), ("a", "b"))


def test_whole_numbers_are_classes_in_their_order(tmp_path: Path) -> None:
    rows = [{**row, "kind": 10 if row["kind"] == "a" else 9} for row in table_rows()]
    assert classification(tmp_path, rows).class_names == ("9", "10")


def test_each_row_is_in_one_split(tmp_path: Path) -> None:
    dataset = regression(tmp_path, table_rows())
    ages = np.concatenate([dataset.split(name).inputs[:][:, 0] for name in ("train", "val", "test")])
    np.testing.assert_array_equal(np.sort(ages), np.arange(20, 60))


def test_parquet_reads_as_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = changed(3, age=None, colour=None)
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    other = load(data_config(tmp_path / "t.parquet", task="regression", target="price"))
    np.testing.assert_allclose(regression(tmp_path, rows).train.inputs[:], other.train.inputs[:])


def test_a_parquet_column_of_lists_is_named(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{**row, "marks": [1, 2]} for row in table_rows()]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"got list.* in column 'marks' .*: leave it out with --ignore marks"):
        load(data_config(tmp_path / "t.parquet", task="regression", target="price"))
    load(data_config(tmp_path / "t.parquet", task="regression", target="price", ignore=["marks"]))


def test_dates_are_the_same_in_csv_and_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    days = [date(2023, 12, 25) + timedelta(days=5 * index) for index in range(40)]
    rows = [{**row, "day": None if index == 7 else days[index]} for index, row in enumerate(table_rows())]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    ours = regression(tmp_path, rows)
    other = load(data_config(tmp_path / "t.parquet", task="regression", target="price"))
    np.testing.assert_array_equal(ours.train.inputs[:], other.train.inputs[:])
    assert ours.columns is not None
    assert [encoding.name for encoding in ours.columns if encoding.is_date] == ["day"]
    assert ours.columns == other.columns


def test_a_date_is_year_month_day_of_the_week_and_days(tmp_path: Path) -> None:
    days = [date(2024, 2, 26) + timedelta(days=index) for index in range(20)]
    dataset = regression(tmp_path, [{"day": day, "y": day.day * 1.5} for day in days], target="y")
    found = {row[3]: row[:3].tolist() for name in ("train", "val", "test") for row in dataset.split(name).inputs[:]}
    for day in days:
        assert found[(day - date(1970, 1, 1)).days] == [day.year, day.month, day.weekday()]


def test_ignored_columns_are_no_features(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", [{**row, "note": f"1,{index}"} for index, row in enumerate(table_rows())])
    dataset = load(data_config(path, task="regression", target="price", ignore=["note", "age"]))
    assert [encoding.name for encoding in dataset.columns or ()] == ["colour", "kind"]


def test_numbers_can_be_categories(tmp_path: Path) -> None:
    rows = [{**row, "zip": ("01234", "8000", "4000")[index % 3]} for index, row in enumerate(table_rows())]
    path = write_csv(tmp_path / "t.csv", rows)
    dataset = load(data_config(path, task="regression", target="price", categories=["zip"]))
    assert (dataset.columns or ())[-1].categories == ("01234", "4000", "8000")


@pytest.mark.parametrize(
    ("name", "value", "is_suggested"),
    [
        ("patient", lambda i: f"p{i * 7 % 40}", True),
        ("patient_id", lambda i: 1000 + i * 7 % 40, True),
        ("Unnamed: 0", lambda i: i, True),
        ("paid", lambda i: 1000 + i * 7 % 40, False),
        ("id", lambda i: i // 2, False),
        ("weight_id", lambda i: i + 0.5, False),
    ],
)
def test_identifiers_are_suggested_to_be_ignored(
    tmp_path: Path, name: str, value: Callable[[int], object], is_suggested: bool
) -> None:
    rows = [{**row, name: value(index)} for index, row in enumerate(table_rows())]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        regression(tmp_path, rows)
    assert [f"leave them out with {ignoring([name])}" in str(each.message) for each in found] == [True] * is_suggested


def test_no_group_is_in_two_splits(tmp_path: Path) -> None:
    rows = [{**row, "patient": index // 4 * 3.5, "same": index // 4} for index, row in enumerate(table_rows(80))]
    path = write_csv(tmp_path / "t.csv", rows)
    dataset = load(data_config(path, task="regression", target="price", group="patient"))
    assert "patient" not in [encoding.name for encoding in dataset.columns or ()]
    groups = [{*dataset.split(name).inputs[:][:, -1].tolist()} for name in ("train", "val", "test")]
    assert sum(map(len, groups)) == len(groups[0] | groups[1] | groups[2]) == 20
    assert [len(dataset.split(name)) for name in ("train", "val", "test")] == [48, 16, 16]


def test_the_test_split_is_later_than_the_training_rows(tmp_path: Path) -> None:
    places = [index * 7 % 40 for index in range(40)]
    rows = [
        {**row, "day": date(2024, 1, 1) + timedelta(days=place), "place": place}
        for row, place in zip(table_rows(), places, strict=True)
    ]
    path = write_csv(tmp_path / "t.csv", rows)
    dataset = load(data_config(path, task="regression", target="price", time="day"))
    assert "day" not in [encoding.name for encoding in dataset.columns or ()]
    days = [dataset.split(name).inputs[:][:, -1] for name in ("train", "val", "test")]
    assert days[0].max() < days[1].min() < days[1].max() < days[2].min()
    assert [len(part) for part in days] == [24, 8, 8]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ignore": ["agee"]}, r"data\.ignore must be a column of .*; got 'agee', did you mean age\?"),
        ({"dates": ["price"]}, r"data\.dates must not name the target 'price'"),
        ({"group": "colour", "time": "age"}, "two rules to split, got both"),
        ({"categories": ["age"], "dates": ["age"]}, "got 'age' as both"),
        ({"dates": ["colour"]}, r"dates must be like 2024-01-31 .*, got 'red' in row 1, column 'colour'"),
        ({"time": "colour"}, "times must be numbers or dates like 2024-01-31, got 'red'"),
        ({"group": "colour"}, "at least 3 groups .*, got 2 in column 'colour'"),
    ],
)
def test_settings_of_columns_that_cannot_be_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    path = write_csv(tmp_path / "t.csv", table_rows())
    with pytest.raises((ConfigError, DataError), match=message):
        load(data_config(path, task="regression", target="price", **settings))


def test_settings_of_tables_have_no_effect_elsewhere() -> None:
    with pytest.raises(ConfigError, match=r"data\.ignore has no effect on digits"):
        load(data_config("digits", ignore=["a"]))


def test_a_class_with_too_few_rows_is_named_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"at least 5 samples of each class .*, got 1 of class 'rare' in .*t\.csv"):
        classification(tmp_path, changed(5, kind="rare"))


def test_a_class_without_training_rows_is_named(tmp_path: Path) -> None:
    rows = [{**row, "kind": "late" if index > 37 else row["kind"]} for index, row in enumerate(table_rows())]
    path = write_csv(tmp_path / "t.csv", rows)
    with pytest.raises(DataError, match=r"every class must have training rows, but 'late' of .*has none"):
        load(data_config(path, task="classification", target="kind", time="age"))


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'saensemble\[tables\]'"):
        load(data_config(tmp_path / "t.parquet", task="regression", target="price"))


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"t\.parquet must be a Parquet file"):
        load(data_config(tmp_path / "t.parquet", task="regression", target="price"))


def test_a_table_suggests_a_fully_connected_network(tmp_path: Path) -> None:
    assert suggestions(str(write_csv(tmp_path / "t.csv", table_rows())))["backbone"] == {"name": "fc"}


@pytest.mark.parametrize("setting", [{"crop": 2}, {"flip": True}])
def test_a_table_cannot_be_cropped_or_flipped(tmp_path: Path, setting: dict[str, Any]) -> None:
    path = write_csv(tmp_path / "t.csv", table_rows())
    with pytest.raises(ConfigError, match=r"must be off for .*: it applies to images"):
        load(data_config(path, task="regression", target="price", **setting))


def test_the_target_must_be_said(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", table_rows())
    with pytest.raises(ConfigError, match=r"data\.target must name the column .* one of age, colour, price, kind"):
        load(data_config(path, task="regression"))


def test_a_target_that_is_no_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.csv, one of age, .*; got 'prize', did you mean price\?"):
        regression(tmp_path, table_rows(), target="prize")


def test_a_row_without_a_target_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing in row 8, column 'price' of .*t\.csv"):
        regression(tmp_path, changed(7, price="NA"))


def test_a_text_as_target_of_a_regression_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be a number, got 'cheap' in row 8, column 'price' of .*t\.csv"):
        regression(tmp_path, changed(7, price="cheap"))


def test_floats_as_classes_are_named(tmp_path: Path) -> None:
    rows = [{**row, "kind": 0.5 if index == 4 else index % 2} for index, row in enumerate(table_rows())]
    with pytest.raises(DataError, match=r"classes must be texts or whole numbers, got 0\.5 in row 5, column 'kind'"):
        classification(tmp_path, rows)


def test_a_single_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"at least 2 classes, got \['a'\] in column 'kind' of .*t\.csv"):
        classification(tmp_path, [{**row, "kind": "a"} for row in table_rows()])


def test_an_infinite_number_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be finite, got inf in row 3, column 'age' of .*t\.csv"):
        regression(tmp_path, changed(2, age="inf"))


def test_a_row_of_another_length_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(DataError, match=r"every row must have 2 values, got 1 in row 2 of .*t\.csv"):
        load(data_config(tmp_path / "t.csv", task="regression", target="b"))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    with pytest.raises(DataError, match="got 'a' twice"):
        load(data_config(tmp_path / "t.csv", task="regression", target="a"))


@pytest.mark.parametrize("text", ["", "a,b\n"])
def test_a_table_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=r"t\.csv must hold rows, got none"):
        load(data_config(tmp_path / "t.csv", task="regression", target="a"))


def test_a_table_with_only_the_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must hold columns besides 'price'"):
        regression(tmp_path, [{"price": row["price"]} for row in table_rows()])


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(DataError, match=r"t\.csv must be a CSV file in UTF-8"):
        load(data_config(tmp_path / "t.csv", task="regression", target="a"))


def test_a_table_that_is_too_large_for_memory_is_mapped_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = classification(tmp_path, table_rows())
    monkeypatch.setattr("sae.data.table_files.LARGEST_IN_MEMORY", 0)
    monkeypatch.setattr("sae.data.cache.LARGEST_IN_MEMORY", 0)
    monkeypatch.setattr("sae.data.dataset.MOST_COPIED", 0)
    monkeypatch.setenv("SAE_CACHE", str(tmp_path / "cache"))
    mapped = classification(tmp_path, table_rows())
    assert isinstance(mapped.train.inputs, Rows)
    assert isinstance(mapped.train.inputs.array, np.memmap)
    for name in ("train", "val", "test"):
        np.testing.assert_array_equal(mapped.split(name).inputs[:], plain.split(name).inputs[:])
        np.testing.assert_array_equal(mapped.split(name).targets, plain.split(name).targets)
    assert mapped.normalisation == plain.normalisation
    assert list((tmp_path / "cache").iterdir()) == []
