import csv
import io
import resource
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import RecordError
from sae.records.evaluation import Part
from sae.records.folder import Folder
from sae.records.parsing import plain_numbers


class Numbers(Part):
    count: int
    share: float


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, "ask for help")


def test_json_is_read_into_its_type(folder: Folder) -> None:
    folder.write_json("x.json", {"count": 3, "share": 1})
    assert folder.read_model("x.json", Numbers) == Numbers(count=3, share=1.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"count": ', "EOF"),
        ("", "EOF"),
        ("\udcff", "JSON"),
        ("[]", "object"),
        ('{"count": 1}', "share: Field required"),
        ('{"count": 1, "share": "0.5"}', "share: Input should be a valid number"),
        ('{"count": 1.5, "share": 0.5}', "count: Input should be a valid integer"),
        ('{"count": null, "share": 0.5}', "count: Input should be a valid integer"),
        ('{"count": 1, "share": NaN}', "numbers must be finite"),
        ('{"share": -Infinity, "count": 1}', "numbers must be finite"),
        ('{"count": 1, "share": 1e999}', "numbers must be finite"),
        ('{"count": 1' + "0" * 5000 + ', "share": 1}', "out of range"),
        ("[" * 100_000, "recursion limit"),
    ],
)
def test_damaged_json_is_named_with_its_first_problem_and_advice(folder: Folder, text: str, problem: str) -> None:
    (folder.path / "x.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=rf"x\.json is damaged \(.*{problem}.*\): ask for help"):
        folder.read_model("x.json", Numbers)


def test_missing_files_are_named(folder: Folder) -> None:
    with pytest.raises(RecordError, match=r"x\.json is missing: ask for help"):
        folder.read_model("x.json", Numbers)
    with pytest.raises(RecordError, match=r"rows\.csv is missing: ask for help"):
        folder.read_rows("rows.csv")
    with pytest.raises(RecordError, match=r"x\.safetensors is missing: ask for help"):
        folder.read_arrays("x.safetensors")


def test_a_folder_in_place_of_a_file_is_named(folder: Folder) -> None:
    for name in ("x.json", "x.csv", "x.safetensors"):
        (folder.path / name).mkdir()
    with pytest.raises(RecordError, match=r"x\.json cannot be read \(Is a directory\): ask for help"):
        folder.read_model("x.json", Numbers)
    with pytest.raises(RecordError, match=r"x\.csv cannot be read \(Is a directory\): ask for help"):
        folder.read_rows("x.csv")
    with pytest.raises(RecordError, match=r"x\.safetensors .*: ask for help"):
        folder.read_arrays("x.safetensors")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_and_infinity_are_never_written_as_json(folder: Folder, number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        folder.write_json("x.json", {"nll": number})
    assert list(folder.path.iterdir()) == []


def test_arrays_are_read_back_with_their_metadata(folder: Folder) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    folder.write_arrays("x.safetensors", {"weight": weight}, {"epoch": "3"})
    arrays, metadata = folder.read_arrays("x.safetensors")
    np.testing.assert_array_equal(arrays["weight"], weight)
    assert metadata == {"epoch": "3"}


def test_a_truncated_array_file_is_named(folder: Folder) -> None:
    folder.write_arrays("x.safetensors", {"weight": np.ones(1000, np.float32)})
    path = folder.path / "x.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(RecordError, match=r"x\.safetensors is damaged or cut short"):
        folder.read_arrays("x.safetensors")


def test_a_write_that_fails_leaves_the_old_file_and_no_debris(folder: Folder) -> None:
    folder.write_arrays("x.safetensors", {"weight": np.zeros(10, np.float32)})
    before = (folder.path / "x.safetensors").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # like a full disk: writes past it fail
    try:
        with pytest.raises(RecordError, match="the file that was there before is unchanged"):
            folder.write_arrays("x.safetensors", {"weight": np.ones(100_000, np.float32)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (folder.path / "x.safetensors").read_bytes() == before
    assert [path.name for path in folder.path.iterdir()] == ["x.safetensors"]


def test_rows_are_read_back_as_texts(folder: Folder) -> None:
    folder.write_rows("rows.csv", [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    assert (folder.path / "rows.csv").read_text().split() == ["epoch,loss", "1,0.5", "2,0.25"]
    assert folder.read_rows("rows.csv") == [{"epoch": "1", "loss": "0.5"}, {"epoch": "2", "loss": "0.25"}]


@pytest.mark.parametrize("text", ["a,b\n1\n", "a,b\n1,2,3\n", 'a,b\n1,"2\n', "a,b\n1,\udcff\n"])
def test_damaged_rows_are_refused(folder: Folder, text: str) -> None:
    (folder.path / "rows.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=r"rows\.csv is damaged .*: ask for help"):
        folder.read_rows("rows.csv")


@pytest.mark.parametrize(
    "text",
    [
        *("a,b\r\n1,2\r\n3,4\r\n", "a,b\n1,2\n", "a,b\r\n1,2", 'a,b\r\n"1,5",2\r\n', "a,b\r\n\r\n1,2\r\n", "a,b\r\n"),
        *("a,b\r\n1,2\n3,4\r\n", "a\r\n\r\n1\r\n", "a,a\r\n1,2\r\n"),
    ],
)
def test_rows_are_read_as_csv_reads_them_however_they_are_written(text: str, folder: Folder) -> None:
    (folder.path / "rows.csv").write_bytes(text.encode())
    assert folder.read_rows("rows.csv") == list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_nobody_is_told_to_train_again_because_a_name_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"\(File name too long\): choose a shorter name"):
        Folder(tmp_path / ("x" * 300)).has("config.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "epoch,a,b\r\n1,0.5,-1e-3\r\n2,12345678901234567890,0.1\r\n",
        "epoch,a,b\r\n1,0.5,2.0",
        "epoch,a,b\r\n1,nan,inf\r\n",
        "epoch,a,b\n1,2,3\n",
        "epoch,a,b\r\n\r\n1,2,3\r\n",
        "b,epoch,a,a\r\n1,2,3,4\r\n",
        'epoch,"a",b\r\n1,"2",3\r\n',
        "epoch,a,b\r\n1,+2,03\r\n",
        "epoch,a,b,\u03b8\r\n1,2,3,4\r\n",
        "epoch,a,b,note\r\n1,2,3,text\r\n",
        "epoch,a,b\r\n",
    ],
)
def test_numbers_are_those_of_the_rows(text: str, folder: Folder) -> None:
    (folder.path / "rows.csv").write_bytes(text.encode())
    expected = [[float(row["b"]), float(row["a"])] for row in folder.read_rows("rows.csv")]
    found = folder.read_numbers("rows.csv", ["b", "a"])
    np.testing.assert_array_equal(found, np.array(expected).reshape(-1, 2))
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("epoch,a\r\n1,2\r\n", KeyError),
        ("epoch,a,b\r\n1,true,3\r\n", ValueError),
        ("epoch,a,b\r\n1,,3\r\n", ValueError),
        ("epoch,a,b\r\n1,2,3\r\n2,3\r\n", RecordError),
        ("epoch,a,b\r\n1,2,3\r\n4\r\n", RecordError),
        ("epoch,a,b\r\n1,2\n,3\r\n", RecordError),
        ("b,x,a\r\n1,2,3,4\r\n2,3\r\n", RecordError),
    ],
)
def test_columns_that_are_not_numbers_are_refused(text: str, error: type[Exception], folder: Folder) -> None:
    (folder.path / "rows.csv").write_bytes(text.encode())
    with pytest.raises(error):
        folder.read_numbers("rows.csv", ["a", "b"])


def test_files_as_we_write_them_are_read_the_quick_way(folder: Folder) -> None:
    folder.write_rows("rows.csv", [{"epoch": 1, "a": 0.1 + 0.2, "b": 1e-7}, {"epoch": 2, "a": 1e22, "b": 3}])
    found = plain_numbers((folder.path / "rows.csv").read_bytes(), ["b", "a"])
    assert found is not None
    assert found.tolist() == [[1e-7, 0.1 + 0.2], [3.0, 1e22]]
