import shlex
from pathlib import Path

import numpy as np
import pytest

from sae.cli.options import names
from sae.core.errors import DataError
from sae.data import table_files
from sae.data.columns import Reading, as_days, ignoring
from sae.data.table_files import read_columns
from sae.data.targets import check_column


def read(tmp_path: Path, text: str, reading: Reading | None = None) -> dict[str, list[object]]:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return {name: column.values.tolist() for name, column in read_columns(path, reading).items()}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_found_out(tmp_path: Path, separator: str) -> None:
    rows = [["a", '"b, c; d"', "e"], ["1", "x", "2.5"]]
    assert read(tmp_path, "\n".join(separator.join(row) for row in rows)) == {"a": [1], "b, c; d": ["x"], "e": [2.5]}


@pytest.mark.parametrize("text", ["a;b\n1,5;x\n2;y\n", 'a,b\n2,x\n"1,5",y\n', "a\tb\n1,500\tx\n"])
def test_a_decimal_comma_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"decimal point, got '1,50?0?' in row \d, column 'a' of .*t\.csv: write 1\.5"):
        read(tmp_path, text)
    assert read(tmp_path, text, Reading(texts=["a"]))["a"]
    assert "a" not in read(tmp_path, text, Reading(only=["b"]))


def test_texts_with_commas_stay_texts(tmp_path: Path) -> None:
    assert read(tmp_path, "a;b\n1,5;1\nx;2\n")["a"] == ["1,5", "x"]


def test_a_text_after_many_numbers_makes_the_column_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "TEXTS_AT_ONCE", 3)
    assert read(tmp_path, "a,b\n" + "".join(f"0{i},{i}\n" for i in range(7)) + "x,\n") == {
        "a": ["00", "01", "02", "03", "04", "05", "06", "x"],
        "b": pytest.approx([0, 1, 2, 3, 4, 5, 6, np.nan], nan_ok=True),
    }


def test_a_row_of_another_length_is_counted_over_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "TEXTS_AT_ONCE", 3)
    with pytest.raises(DataError, match="got 1 in row 5 of"):
        read(tmp_path, "a,b\n1,2\n1,2\n1,2\n1,2\n1\n")


@pytest.mark.parametrize(
    ("text", "days"),
    [("1970-01-01", 0.0), ("2024-02-29", 19782.0), ("1969-12-31 12:00", -0.5), ("1970-01-01T02:00:00+02:00", 0.0)],
)
def test_dates_are_days_since_1970(tmp_path: Path, text: str, days: float) -> None:
    assert read(tmp_path, f"d\n{text}\nNA\n")["d"] == pytest.approx([days, np.nan], nan_ok=True)


def test_a_date_that_does_not_exist_is_named() -> None:
    with pytest.raises(DataError, match="got '2023-02-29' in row 2, column"):
        as_days(["2023-02-28", "2023-02-29"], "column")


def test_a_column_with_one_other_text_holds_no_dates(tmp_path: Path) -> None:
    assert read(tmp_path, "d\n2024-01-31\nsoon\n")["d"] == ["2024-01-31", "soon"]


def test_known_texts_are_no_dates(tmp_path: Path) -> None:
    assert read(tmp_path, "d\n2024-01-31\n", Reading(texts=["d"]))["d"] == ["2024-01-31"]


def test_a_name_with_a_comma_is_advised_as_the_option_reads_it() -> None:
    _, value = shlex.split(ignoring(["height, cm", 'so "called"', "id"]))
    assert names("--ignore", value) == ["height, cm", 'so "called"', "id"]
    with pytest.raises(DataError, match=r'one of "height, cm", id; got .height., did you mean "height, cm"\?'):
        check_column("data.ignore", "height", ["height, cm", "id"], Path("t.csv"))
