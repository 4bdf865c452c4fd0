from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.data.columns import Reading
from sae.data.frames import as_texts, column_of, dataset_of, frame_columns, hold_out, is_frame
from sae.data.splits import split_indices
from sae.data.table import read_own
from sae.data.table_files import read_columns
from tests.estimators.tables import mixed_frame, written


def test_a_frame_has_the_columns_of_its_file(tmp_path: Path) -> None:
    frame = mixed_frame()
    found, expected = frame_columns(frame, Reading(), "X"), read_columns(written(frame, tmp_path / "t.csv"))
    assert list(found) == list(expected)
    for name, column in expected.items():
        assert found[name].is_date == column.is_date
        np.testing.assert_array_equal(found[name].values, column.values)


@pytest.mark.filterwarnings("ignore:The 'float_precision' argument")  # the default of pandas 3.1, not of earlier ones
def test_a_frame_that_was_read_from_a_file_has_its_columns(tmp_path: Path) -> None:
    path = written(mixed_frame(), tmp_path / "t.csv")
    found = frame_columns(pd.read_csv(path, float_precision="round_trip"), Reading(), "X")  # its dates are texts
    for name, column in read_columns(path).items():
        np.testing.assert_array_equal(found[name].values, column.values)


def test_a_table_in_memory_is_encoded_as_its_file(tmp_path: Path) -> None:
    frame = mixed_frame()
    config = DataConfig(name=str(written(frame, tmp_path / "t.csv")), task="regression", target="price")
    expected = read_own(config, 0)
    train, val, test = split_indices(len(frame), 0)
    columns = frame_columns(frame.drop(columns="price"), Reading(), "X")
    found = dataset_of(columns, frame["price"].to_numpy(), None, (train, val), "X")
    assert found.columns == expected.columns
    assert found.normalisation == expected.normalisation
    assert found.spec == expected.spec
    np.testing.assert_array_equal(found.train.inputs[:], expected.train.inputs[:])
    np.testing.assert_array_equal(found.val.targets, expected.val.targets)
    assert len(test) == len(expected.test)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([1, 2.5, None], [1.0, 2.5, np.nan]),
        (pd.array([1, None], dtype="Int64"), [1.0, np.nan]),
        (pd.Categorical([3, 4]), ["3", "4"]),
        ([True, False], ["True", "False"]),
        (["01", "2", " n/a "], ["01", "2", None]),
        ([date(1970, 1, 2), None], [1.0, np.nan]),
        (pd.to_datetime(["1970-01-02T12:00", None]), [1.5, np.nan]),
        (pd.to_datetime(["1970-01-02T12:00Z"]), [1.5]),
        (["1970-01-02", "1970-01-03"], [1.0, 2.0]),
        (np.array([None, None], object), [np.nan, np.nan]),
        ([1.0, "a"], ["1", "a"]),
    ],
)
def test_values_become_what_a_file_holds(given: object, values: list[object]) -> None:
    found = column_of("c", given, Reading(), "X").values.tolist()
    assert all(a == b or (a != a and b != b) for a, b in zip(found, values, strict=True))


def test_numbers_are_categories_where_the_user_says_so() -> None:
    assert column_of("c", np.array([1.0, np.nan]), Reading(texts=["c"]), "X").values.tolist() == ["1", None]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.inf, 1.0], r"finite, got inf in row 1, column 'c' of X"),
        ([{"a": 1}, {"b": 2}], r"texts, numbers or dates, got \{'a': 1\} in column 'c' of X"),
        (np.array([1j]), "got complex128 in column 'c'"),
        (["1,5", "2"], "decimal point, got '1,5'"),
    ],
)
def test_what_a_column_cannot_hold_is_refused(given: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        column_of("c", given, Reading(), "X")


def test_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="different names, got a, a"):
        frame_columns(frame, Reading(), "X")


def test_arrays_and_dictionaries_are_no_frames() -> None:
    assert is_frame(mixed_frame(3))
    assert not is_frame(np.ones((2, 2)))
    assert not is_frame({"a": [1]})


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1], [0, 1, 1]])
def test_every_class_keeps_a_training_row(labels: list[int]) -> None:
    targets = np.array(labels)
    train, val = hold_out(targets, seed=3, share=0.2)
    assert set(targets[train]) == set(labels)
    assert len(val) >= 1
    assert sorted([*train, *val]) == list(range(len(labels)))


def test_texts_of_a_file_are_read_back_exactly(tmp_path: Path) -> None:
    frame = mixed_frame(20)
    columns = frame_columns(frame, Reading(), "X")
    path = tmp_path / "t.csv"
    lines = zip(*(as_texts(column) for column in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(line) for line in lines)]) + "\n", encoding="utf-8")
    for name, column in read_columns(path).items():
        np.testing.assert_array_equal(column.values, columns[name].values)
