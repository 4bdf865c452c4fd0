"""Rows of a table as dictionaries, data frames and files; missing values and new categories among them."""

import csv
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.config.run import parse_run
from sae.core.errors import ConfigError, DataError, DataWarning
from sae.data.table_files import read_columns
from sae.deploy.answers import predict_to_file
from sae.deploy.export import export
from sae.deploy.rows import encode_rows
from sae.deploy.runtime import ClassPrediction, Model, load
from sae.deploy.sources import read_chunks
from sae.training.run import train
from tests.data.samples import table_rows, write_csv

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Rows with a number, texts, a date, numbers that are categories, and missing values."""
    return [
        {
            **row,
            "size": None if index % 7 == 0 else float(index % 5),
            "zip": (8000, 4000)[index % 2],
            "day": date(2024, 1 + index % 12, 3),
        }
        for index, row in enumerate(table_rows(80))
    ]


@pytest.fixture(scope="module")
def model(folder: Path, rows: list[dict[str, Any]]) -> Model:
    data = write_csv(folder / "data.csv", rows)
    settings = {
        "data": {
            "name": str(data),
            "task": "classification",
            "target": "kind",
            "ignore": ["price"],
            "categories": ["zip"],
        },
        "backbone": {"name": "fc", "depth": 2},
    }
    train(parse_run(settings, {"method": {"name": "standard"}, "train": {"epochs": 1}}), folder / "run")
    export(folder / "run", folder / "shipped" / "model.onnx")
    return load(folder / "shipped")


class DataFrame:
    """The part of a data frame that is used, where pandas is not installed."""

    def __init__(self, rows: Sequence[Mapping[str, object]]) -> None:
        self.rows, self.columns = rows, list(rows[0])

    def to_dict(self, orient: str) -> Sequence[Mapping[str, object]]:
        assert orient == "records"
        return self.rows


def probs(model: Model, x: Any) -> np.ndarray:
    prediction = model.predict(x)
    assert isinstance(prediction, ClassPrediction)
    return prediction.probs


def test_dictionaries_predict_what_the_file_predicts(model: Model, folder: Path, rows: list[dict[str, Any]]) -> None:
    (chunk,) = read_chunks([folder / "data.csv"], model.manifest, "test")
    np.testing.assert_array_equal(probs(model, rows), probs(model, chunk.samples))
    without_truth = [{name: value for name, value in row.items() if name != "kind"} for row in rows]
    np.testing.assert_array_equal(probs(model, without_truth), probs(model, chunk.samples))


def test_a_data_frame_predicts_what_dictionaries_predict(model: Model, rows: list[dict[str, Any]]) -> None:
    np.testing.assert_array_equal(probs(model, DataFrame(rows)), probs(model, rows))


def test_pandas_predicts_what_dictionaries_predict(model: Model, rows: list[dict[str, Any]]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows)
    frame["day"] = pandas.to_datetime(frame["day"])
    np.testing.assert_array_equal(probs(model, frame), probs(model, rows))


@pytest.mark.parametrize(
    "change",
    [
        {"age": "20"},
        {"zip": 8000.0},
        {"zip": "8000"},
        {"day": "2024-01-03"},
        {"day": datetime(2024, 1, 3)},
        {"size": float("nan")},
        {"size": "NA"},
    ],
)
def test_values_may_be_spelled_in_several_ways(
    model: Model, rows: list[dict[str, Any]], change: dict[str, Any]
) -> None:
    np.testing.assert_array_equal(probs(model, [rows[0] | change]), probs(model, rows[:1]))


def test_a_value_that_is_missing_for_the_first_time_is_imputed(model: Model, rows: list[dict[str, Any]]) -> None:
    changed = [rows[0] | {"age": None}, rows[1], rows[2] | {"colour": None}]
    with pytest.warns(DataWarning) as found:
        encoded = encode_rows(changed, model.manifest)
    assert [str(each.message) for each in found] == [
        "column 'age' of the rows lacks values in 1 row, but had all in training: the training median is used there",
        "column 'colour' of the rows lacks values in 1 row, but had all in training: none of its categories is used "
        "there",
    ]
    assert encoded.imputed.tolist() == [True, False, True]
    assert encoded.samples[0, 0] == (model.manifest.input.columns or ())[0].median


def test_a_category_that_training_did_not_see_is_counted(model: Model, rows: list[dict[str, Any]]) -> None:
    changed = [row | {"colour": "green"} for row in rows[:2]] + rows[2:3]
    with pytest.warns(DataWarning, match="did not see in 2 rows, such as 'green': they count as none"):
        encoded = encode_rows(changed, model.manifest)
    assert encoded.unseen.tolist() == [True, True, False]
    assert not encoded.imputed.any()


def test_numeric_marks_of_the_user_are_missing_in_dictionaries_and_files_alike(tmp_path: Path) -> None:
    rows = [{"x": -999.0 if number % 5 == 0 else number, "kind": "ab"[number % 2]} for number in range(60)]
    data = {"name": str(write_csv(tmp_path / "t.csv", rows)), "task": "classification", "target": "kind"}
    settings = {"data": {**data, "missing": ["-999.0"]}, "backbone": {"name": "fc", "depth": 1}, "train": {"epochs": 1}}
    train(parse_run(settings), tmp_path / "run")
    export(tmp_path / "run", tmp_path / "shipped" / "model.onnx")
    model = load(tmp_path / "shipped" / "model.onnx")
    expected = probs(model, [{"x": None}])
    for spelt in (-999, -999.0, "-999", "-999.00"):
        np.testing.assert_array_equal(probs(model, [{"x": spelt}]), expected)
    path = tmp_path / "new.csv"
    path.write_text("x\n-999\n")
    (chunk,) = read_chunks([path], model.manifest, "test")
    np.testing.assert_array_equal(probs(model, chunk.samples), expected)


def test_kept_columns_stand_in_the_predictions_as_the_file_spells_them(
    model: Model, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    named = [{**row, "id": f"{number:03d}" if number else "NA", "class": "x"} for number, row in enumerate(rows)]
    path, out = write_csv(tmp_path / "t.csv", named), tmp_path / "out.csv"
    predict_to_file(model, read_chunks([path], model.manifest, "test", ["id"]), out)
    with out.open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["id"] for row in written] == [row["id"] for row in named]
    out.unlink()
    with pytest.raises(ConfigError, match="--keep must not name a column of the predictions, got 'class'"):
        predict_to_file(model, read_chunks([path], model.manifest, "test", ["class"]), out)
    with pytest.raises(DataError, match=r"--keep must be a column of .*; got 'ID'"):
        predict_to_file(model, read_chunks([path], model.manifest, "test", ["ID"]), out)
    assert not out.exists()


def test_answers_mark_imputed_and_unseen_rows(model: Model, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = write_csv(tmp_path / "new.csv", [rows[0] | {"age": ""}, rows[1] | {"colour": "green"}, rows[2]])
    with pytest.warns(DataWarning):
        summary = predict_to_file(model, read_chunks([path], model.manifest, "test"), tmp_path / "out.csv")
    assert (summary["imputed"], summary["unseen"]) == (1, 1)
    written = read_columns(tmp_path / "out.csv")
    assert written["imputed"].values.tolist() == ["true", "false", "false"]
    assert written["unseen"].values.tolist() == ["false", "true", "false"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": "old"}, "column 'age' must hold finite numbers, got 'old' in row 1"),
        ({"age": float("inf")}, "must hold finite numbers, got inf"),
        ({"day": "yesterday"}, "dates must be like 2024-01-31 .*, got 'yesterday' in row 1, column 'day'"),
    ],
)
def test_values_that_cannot_be_read_are_named(
    model: Model, rows: list[dict[str, Any]], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        model.predict([rows[0] | change])


def test_a_column_that_no_row_has_is_named(model: Model, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(DataError, match=r"the rows must have the columns .* missing: day"):
        model.predict([{name: value for name, value in rows[0].items() if name != "day"}])


def test_rows_are_for_tables(digits_model: Path) -> None:
    with pytest.raises(DataError, match="rows with names are for models of tables"):
        load(digits_model).predict([{"a": 1}])
