"""`sae export` and `sae predict` as a user meets them: files in, a table of predictions out."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sae.cli import app
from tests.data.samples import table_rows, write_csv

pytestmark = pytest.mark.long


def sae(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def predicted(*arguments: object, out: Path) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The summary and the rows of a prediction that works."""
    code, printed, error = sae("predict", *arguments, "--out", out, "--json")
    assert code == 0, error
    with out.open(newline="") as file:
        return json.loads(printed), list(csv.DictReader(file))


def refused(*arguments: object, out: Path) -> str:
    """What is said of a mistake."""
    code, printed, error = sae("predict", *arguments, "--out", out)
    assert code == 2
    assert printed == ""
    assert len(error.strip().splitlines()) == 1
    assert not out.exists()
    assert not list(out.parent.glob(".*.tmp"))
    return error


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "predictions.csv"


def save_image(path: Path, mode: str, side: int = 16) -> Path:
    values = np.random.default_rng(0).integers(0, 256, (side, side)).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).convert(mode).save(path)
    return path


def test_export_prints_what_is_shipped_and_is_quiet_otherwise(digits_run: Path, digits_model: Path) -> None:
    code, printed, error = sae("export", digits_run, "--eval-exits", "2", "--out", digits_model)
    assert code == 0
    assert "contain the truth" in printed
    assert len(error.strip().splitlines()) == 1
    report = json.loads(sae("export", digits_run, "--eval-exits", "2", "--out", digits_model, "--json")[1])
    assert {"cost", "metrics", "conformal", "parity", "graph"} <= set(report)


@pytest.mark.slow
def test_a_real_export_says_how_it_reads_the_run_and_where_the_model_is(digits_run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from sae.cli import main; main()", "export", str(digits_run)]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "m.onnx")], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert len(done.stderr.strip().splitlines()) == 2, done.stderr


def test_an_npz_file_gives_a_row_for_each_image_and_the_accuracy(framed_model: Path, out: Path) -> None:
    data = framed_model.parents[1] / "data.npz"
    summary, rows = predicted(framed_model, data, "--coverage", 0.8, "--abstain", 0.5, out=out)
    assert summary["samples"] == len(rows) == 12
    manifest = json.loads((framed_model.parent / "manifest.json").read_text())
    assert summary["accuracy"] == pytest.approx(manifest["metrics"]["test"]["accuracy"])
    assert summary["abstained"] == sum(row["abstain"] == "true" for row in rows)
    assert all((float(row["confidence"]) < 0.5) == (row["abstain"] == "true") for row in rows)
    assert all(row["class"] in row["set"].split("|") for row in rows)
    assert summary["mean_set_size"] == pytest.approx(np.mean([int(row["set_size"]) for row in rows]))
    other, _ = predicted(framed_model, data, "--split", "val", out=out)
    assert other["samples"] == 9


def test_an_npz_file_of_images_alone_is_predicted_without_accuracy(
    digits_model: Path, pixels: np.ndarray, tmp_path: Path, out: Path
) -> None:
    np.savez(tmp_path / "x.npz", images=pixels[:, 0])
    summary, rows = predicted(digits_model, tmp_path / "x.npz", out=out)
    assert "accuracy" not in summary
    assert sum(float(rows[0][f"p_{name}"]) for name in range(10)) == pytest.approx(1.0, abs=1e-5)


def test_an_npz_file_of_no_images_gives_no_rows(digits_model: Path, tmp_path: Path, out: Path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((0, 16, 16), np.uint8))
    summary, rows = predicted(digits_model, tmp_path / "x.npz", "--abstain", 0.8, out=out)
    assert (summary["samples"], summary["abstained"], rows) == (0, 0, [])


def test_pictures_with_four_channels_and_with_one_become_what_the_model_takes(
    digits_model: Path, tmp_path: Path, out: Path
) -> None:
    files = [save_image(tmp_path / f"{mode}.png", mode) for mode in ("L", "LA", "RGB", "RGBA", "P")]
    _, rows = predicted(digits_model, *files, out=out)
    assert [row["sample"] for row in rows] == [str(file) for file in files]
    assert len({row["confidence"] for row in rows}) == 1, "a gray picture is the same in every mode"


def test_pictures_in_folders_of_their_classes_have_labels(digits_model: Path, tmp_path: Path, out: Path) -> None:
    for name in ("3", "7"):
        save_image(tmp_path / "pictures" / name / "a.png", "RGBA")
    summary, rows = predicted(digits_model, tmp_path / "pictures", out=out)
    assert [row["true_class"] for row in rows] == ["3", "7"]
    assert summary["accuracy"] in (0.0, 0.5)


def test_a_picture_of_another_size_is_refused_with_both_sizes(digits_model: Path, tmp_path: Path, out: Path) -> None:
    error = refused(digits_model, save_image(tmp_path / "a.png", "L", side=20), out=out)
    assert "must be 16×16" in error
    assert "is 20×20" in error


def test_a_file_that_is_no_picture_is_refused(digits_model: Path, tmp_path: Path, out: Path) -> None:
    (tmp_path / "a.png").write_text("no picture")
    assert "must be an image" in refused(digits_model, tmp_path / "a.png", out=out)


def test_a_table_is_read_by_the_names_of_its_columns(table_model: Path, tmp_path: Path, out: Path) -> None:
    data = table_model.parents[1] / "data.csv"
    summary, rows = predicted(table_model, data, "--coverage", 0.8, out=out)
    assert summary["samples"] == 80
    assert summary["mse"] == pytest.approx(np.mean([(float(r["mean"]) - float(r["true_value"])) ** 2 for r in rows]))
    assert all(float(row["lower"]) < float(row["mean"]) < float(row["upper"]) for row in rows)
    with data.open(newline="") as file:
        shuffled = [dict(reversed(row.items())) | {"more": "x"} for row in csv.DictReader(file)]
    for row in shuffled:
        del row["price"]
    again, other_rows = predicted(table_model, write_csv(tmp_path / "t.csv", shuffled), out=out)
    assert "mse" not in again
    assert [row["mean"] for row in other_rows] == [row["mean"] for row in rows]


def row(**values: object) -> dict[str, object]:
    return {"age": 30, "colour": "red", "size": 2, "kind": "a", **values}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"age": 30, "colour": "red"}], "missing: kind, size"),
        ([row(age="old")], "must hold numbers, got 'old'"),
        ([row(age="inf")], "numbers must be finite, got inf"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    table_model: Path, tmp_path: Path, out: Path, rows: list[dict[str, object]], message: str
) -> None:
    assert message in refused(table_model, write_csv(tmp_path / "t.csv", rows), out=out)


def test_a_missing_value_and_a_new_text_are_what_they_were_at_training(
    table_model: Path, tmp_path: Path, out: Path
) -> None:
    rows = [row(size=""), row(colour="green"), row(colour="17")]
    _, predictions = predicted(table_model, write_csv(tmp_path / "t.csv", rows), out=out)
    assert predictions[1]["mean"] == predictions[2]["mean"] != predictions[0]["mean"]


def test_what_a_model_cannot_do_is_refused(digits_model: Path, table_model: Path, tmp_path: Path, out: Path) -> None:
    table = table_model.parents[1] / "data.csv"
    assert "use --coverage" in refused(table_model, table, "--abstain", 0.8, out=out)
    assert "images or an .npz file" in refused(digits_model, table, out=out)
    assert "predicts from a table" in refused(table_model, save_image(tmp_path / "a.png", "L"), out=out)
    assert "must exist" in refused(digits_model, tmp_path / "nothing.png", out=out)
    picture = save_image(tmp_path / "a.png", "L")
    assert "above 0 and below 1" in refused(digits_model, picture, "--coverage", 2, out=out)
    assert "probability above 0" in refused(digits_model, picture, "--abstain", 7, out=out)
    assert "manifest.json beside it" in refused(picture, picture, out=out)


def test_what_is_read_is_never_replaced(digits_model: Path, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "images", tmp_path / "elsewhere"
    save_image(folder / "a" / "0.png", "L")
    save_image(elsewhere / "1.png", "L")
    (folder / "notes.txt").write_text("mine")
    (folder / "linked.txt").symlink_to("notes.txt")
    (tmp_path / "link.csv").symlink_to(folder / "notes.txt")
    write_csv(tmp_path / "list.csv", [{"file": "elsewhere/1.png", "y": 1}])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for data, out, said in (
        (folder, folder / "a" / "0.png", "must not have the name of an image"),
        (folder, folder / "a" / "new.PNG", "must not have the name of an image"),
        (folder / "a" / "0.png", folder / "a" / "0.png", "must not have the name of an image"),
        (tmp_path / "list.csv", elsewhere / "1.png", "must not have the name of an image"),
        (folder, folder / "notes.txt", "must not replace an input"),
        (folder, folder / "linked.txt", "must not replace an input"),
        (folder, tmp_path / "link.csv", "must not replace an input"),
        (tmp_path / "list.csv", tmp_path / "list.csv", "must not replace an input"),
        (folder, digits_model, "must not replace an input"),
    ):
        code, _, error = sae("predict", digits_model, data, "--out", out)
        assert (code, said in error) == (2, True), error
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert sae("predict", digits_model, folder, "--out", folder / "new.csv")[0] == 0


def test_the_table_of_the_tests_is_the_one_that_was_trained_on() -> None:
    assert set(table_rows()[0]) | {"size"} == {*row(), "price"}


def test_files_of_a_model_are_no_place_for_predictions(digits_model: Path, out: Path) -> None:
    manifest = digits_model.parent / "manifest.json"
    before = manifest.read_bytes()
    code, printed, error = sae("predict", digits_model, save_image(out.parent / "a.png", "L"), "--out", manifest)
    assert (code, printed) == (2, "")
    assert "--out must not replace a file of the model" in error
    assert manifest.read_bytes() == before


def test_predictions_are_printed_where_out_is_standard_output(digits_model: Path, tmp_path: Path) -> None:
    link = tmp_path / "stdout.csv"
    link.symlink_to("/proc/self/fd/1")
    image = save_image(tmp_path / "a.png", "L")
    command = [sys.executable, "-m", "sae", "predict", str(digits_model), str(image), "--out", str(link)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    header, row = csv.reader(done.stdout.splitlines())
    assert (header[0], row[0]) == ("sample", str(image))
    assert done.stderr == "1 prediction printed\n"
    assert link.is_symlink()


def test_the_table_of_training_can_be_predicted_whatever_its_classes_are_called(tmp_path: Path) -> None:
    """Numbers among texts are texts, and a class may look like a formula."""
    names = ("1.0", "2.0", "=x")
    rows = [{"a": index % 3 + 0.1 * (index % 7), "b": index % 5, "y": names[index % 3]} for index in range(60)]
    data = write_csv(tmp_path / "data.csv", rows)
    flags = ("--data", data, "--task", "classification", "--target", "y", "--epochs", "1", "--backbone", "fc")
    code, _, error = sae("train", *flags, "--out", tmp_path / "run")
    assert code == 0, error
    code, _, error = sae("export", tmp_path / "run", "--out", tmp_path / "shipped" / "model.onnx")
    assert code == 0, error
    summary, found = predicted(tmp_path / "shipped" / "model.onnx", data, out=tmp_path / "out.csv")
    assert "accuracy" in summary
    assert {row["true_class"] for row in found} == {"1.0", "2.0", "'=x"}
