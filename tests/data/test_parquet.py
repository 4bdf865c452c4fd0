"""Parquet holds what Python does not: far years, unknown zones, texts that are not UTF-8, numbers as texts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.core.errors import DataError
from sae.data.catalogue import load
from sae.data.columns import Reading, as_days
from sae.data.dataset import Dataset
from sae.data.table_files import first_row, read_columns
from sae.data.targets import infer_task
from tests.data.samples import data_config

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

ROWS = 40


def written(path: Path, **columns: Any) -> Path:
    usual = {"x": np.arange(ROWS) % 7 / 2, "y": np.arange(ROWS) % 3 * 1.5}
    parquet.write_table(pa.table({**usual, **columns}), path / "t.parquet")
    return path / "t.parquet"


def read(path: Path, **settings: Any) -> Dataset:
    return load(data_config(path, **{"task": "regression", "target": "y", **settings}))


def texts_of(values: list[bytes]) -> Any:
    """Texts that need not be UTF-8."""
    array = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers())


def moments(unit: str, zone: str | None = None, first: int = 0, step: int = 86_400) -> Any:
    return pa.array([first + step * row for row in range(ROWS)]).cast(pa.timestamp(unit, zone))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_are_the_days_that_python_computes(tmp_path: Path, unit: str, zone: str | None) -> None:
    rng = np.random.default_rng(0)
    times = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(s)) for s in rng.integers(-(2**31), 2**32, ROWS)]
    given = [None if row == 3 else time.replace(tzinfo=UTC if zone else None) for row, time in enumerate(times)]
    path = written(tmp_path, t=pa.array(given, pa.timestamp(unit, zone)))
    found = read_columns(path, Reading())["t"]
    assert found.is_date
    np.testing.assert_array_equal(found.numbers, as_days(given, "t"))


def test_days_of_the_calendar_are_the_days_that_python_computes(tmp_path: Path) -> None:
    dates = [(datetime(1960, 1, 1) + timedelta(days=row * 400)).date() for row in range(ROWS)]
    path = written(tmp_path, a=pa.array(dates, pa.date32()), b=pa.array(dates, pa.date64()))
    columns = read_columns(path, Reading())
    for name in ("a", "b"):
        np.testing.assert_array_equal(columns[name].numbers, as_days(dates, name))


@pytest.mark.parametrize(
    "times",
    [
        moments("s", first=10**12),
        moments("s", first=-(10**12)),
        moments("s", "Mars/Olympus"),
        moments("us", "Europe/Berlin"),
        pa.array([10**8 + row for row in range(ROWS)], pa.int32()).cast(pa.date32()),
    ],
    ids=["after 9999", "before 1", "unknown zone", "zone", "days after 9999"],
)
def test_times_that_python_does_not_have_are_read(tmp_path: Path, times: Any) -> None:
    dataset = read(written(tmp_path, t=times))
    assert dataset.columns is not None
    assert [column.name for column in dataset.columns if column.is_date] == ["t"]


BROKEN = texts_of([b"ab\xff", b"c"] * (ROWS // 2))


@pytest.mark.parametrize(
    ("columns", "task", "name"),
    [
        ({"t": BROKEN}, "regression", "t"),
        ({"y": BROKEN}, "classification", "y"),
        ({"t": pa.DictionaryArray.from_arrays(pa.array([0, 1] * (ROWS // 2)), BROKEN[:2])}, "regression", "t"),
    ],
    ids=["column", "target", "dictionary"],
)
def test_values_that_cannot_be_read_are_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], task: str, name: str
) -> None:
    path = written(tmp_path, **columns)
    assert first_row(path) in ([], ["c"])
    with pytest.raises(DataError, match=f"column '{name}' cannot be read"):
        read(path, task=task)


def test_times_that_python_does_not_have_cannot_be_categories(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 't' cannot be read: date value out of range"):
        read(written(tmp_path, t=moments("s", first=10**12)), categories=("t",))


@pytest.mark.parametrize("as_dictionary", [False, True])
@pytest.mark.parametrize("form", ["{:.1f}", "{:06.1f}"], ids=["plain", "leading zeros"])
def test_numbers_as_texts_are_the_target_of_a_regression(tmp_path: Path, form: str, as_dictionary: bool) -> None:
    texts = pa.array([form.format(row % 3 * 1.5) for row in range(ROWS)])
    wanted = read(written(tmp_path))
    found = read(written(tmp_path, y=texts.dictionary_encode() if as_dictionary else texts))
    np.testing.assert_array_equal(found.train.targets, wanted.train.targets)


def test_a_text_in_the_target_of_a_regression_is_named(tmp_path: Path) -> None:
    texts = pa.array(["1.5", "five", *["2"] * (ROWS - 2)]).dictionary_encode()
    with pytest.raises(DataError, match="must be a number, got 'five' in row 2"):
        read(written(tmp_path, y=texts))


def test_a_column_of_numbers_without_any_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"columns that cannot be used: 't' \(no value\)"):
        read(written(tmp_path, t=pa.nulls(ROWS, pa.float64())))


def test_numbers_in_a_dictionary_are_numbers(tmp_path: Path) -> None:
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, 1] * (ROWS // 2)), pa.array([2.5, 7.0]))
    assert read_columns(written(tmp_path, n=numbers), Reading())["n"].numbers[:2].tolist() == [2.5, 7.0]


def test_numbers_that_a_parquet_file_keeps_as_texts_tell_a_regression(tmp_path: Path) -> None:
    texts = pa.array([f"{index / 7}" for index in range(60)])
    parquet.write_table(pa.table({"height": texts}), tmp_path / "t.parquet")
    assert infer_task(tmp_path / "t.parquet", ["height"]) == ("regression", "column 'height' holds numbers")
