"""Predictions that cannot be used are never taken for right ones, and a graph of a stranger does no harm."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.core.errors import ModelError, PredictionError
from sae.deploy.conformal import class_sets
from sae.deploy.runtime import NO_CLASS, ClassPrediction, load
from sae.deploy.session import SegmentSessions, Session
from tests.data.samples import table_rows, write_csv
from tests.deploy.forged import endless, forge, nan_below, odd_shape, one_row, scalar

DARK, BRIGHT = np.zeros((1, 16, 16), np.uint8), np.full((1, 16, 16), 200, np.uint8)


def sae(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Four images of class 0; the model knows nothing about the second."""
    images = np.stack([BRIGHT, DARK, BRIGHT, BRIGHT])
    np.savez(tmp_path / "x.npz", images=images[:, 0], labels=np.zeros(4, np.int64))
    return tmp_path / "x.npz"


def predicted(model: Path, data: Path, *more: object) -> tuple[int, dict[str, Any], list[dict[str, str]], str]:
    out = data.parent / "out.csv"
    code, printed, error = sae("predict", model, data, "--out", out, "--json", *more)
    with out.open(newline="") as file:
        return code, json.loads(printed), list(csv.DictReader(file)), error


def test_a_row_of_nan_has_no_class_and_counts_as_wrong(tmp_path: Path, images: Path) -> None:
    model = forge(tmp_path / "model", nan_below(100, (0.91, *(0.01,) * 9)))
    code, summary, rows, error = predicted(model, images, "--abstain", 0.5, "--coverage", 0.8)
    assert code == 0
    assert (summary["unusable"], summary["abstained"]) == (1, 1)
    assert (summary["accuracy"], summary["coverage"], summary["accuracy_kept"]) == (0.75, 0.75, 1.0)
    row = rows[1]
    assert (row["class"], row["label"], row["confidence"], row["p_0"]) == ("", "-1", "", "")
    assert (row["abstain"], row["correct"], row["set"], row["in_set"]) == ("true", "false", "", "false")
    assert rows[0]["class"] == "0"
    assert "1 of 4 samples cannot be predicted, such as 1" in error


def test_strict_ends_with_code_3_after_the_file_is_written(tmp_path: Path, images: Path) -> None:
    code, summary, rows, error = predicted(forge(tmp_path / "model", nan_below(100)), images, "--strict")
    assert (code, summary["unusable"], len(rows)) == (3, 1, 4)
    assert "error: --strict: 1 sample cannot be predicted" in error
    code, summary, _, _ = predicted(forge(tmp_path / "good", nan_below(0)), images, "--strict")
    assert (code, "unusable" in summary) == (0, False)


def test_in_python_a_row_of_nan_has_no_class_and_abstains(tmp_path: Path) -> None:
    prediction = load(forge(tmp_path / "model", nan_below(100))).predict(np.stack([BRIGHT, DARK]))
    assert isinstance(prediction, ClassPrediction)
    assert prediction.labels.tolist() == [0, NO_CLASS]
    assert prediction.names == ["0", ""]
    assert prediction.usable.tolist() == [True, False]
    assert prediction.abstains(0.05).tolist() == [False, True]


def test_a_set_without_probabilities_is_empty() -> None:
    assert class_sets(np.array([[0.9, 0.1], [np.nan, np.nan]]), 0.5).tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("probs", [(5.0, -3.0, 7.0, *(0.0,) * 7), (0.5,) * 10, (1.5, -0.5, *(0.0,) * 8)])
def test_numbers_that_are_no_probabilities_are_refused(tmp_path: Path, probs: tuple[float, ...]) -> None:
    model = load(forge(tmp_path / "model", nan_below(0, probs)))
    with pytest.raises(ModelError, match=r"probabilities that sum to 1, got \[.*damaged or forged"):
        model.predict(BRIGHT[None])


def test_a_graph_with_other_rows_than_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="must return a row for each sample, but probs has others"):
        load(forge(tmp_path / "model", one_row())).predict(np.stack([BRIGHT, DARK]))


@pytest.mark.parametrize(("sizes", "shape"), [(("n", 1, 10), (1, 1, 10)), (("n", 5, 2), (1, 5, 2)), ((10,), (10,))])
def test_probabilities_of_another_shape_are_refused(
    tmp_path: Path, sizes: tuple[str | int, ...], shape: tuple[int, ...]
) -> None:
    with pytest.raises(ModelError, match=r"the graph must|must name every class of its graph"):
        load(forge(tmp_path / "model", odd_shape(sizes, shape))).predict(BRIGHT[None])


def test_a_graph_must_say_how_many_classes_it_has() -> None:
    session = Session(nan_below(0))
    session._widths[0] = ("c",)
    with pytest.raises(ModelError, match="must say how many numbers probs has per sample"):
        session.width("probs")


def test_a_graph_that_takes_a_single_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="must have one input with a free batch size"):
        load(forge(tmp_path / "model", scalar()))


def test_a_graph_that_never_ends_is_stopped(tmp_path: Path, images: Path) -> None:
    model = forge(tmp_path / "model", endless())
    out = tmp_path / "out.csv"
    code, printed, error = sae("predict", model, images, "--out", out, "--timeout", 0.5)
    assert (code, printed, out.exists()) == (3, "", False)
    assert error.splitlines() == [
        "error: the model must predict within 0.5 s, but was still at work: allow more with --timeout, or predict "
        "fewer samples"
    ]


def test_segments_are_stopped_and_released(tmp_path: Path) -> None:
    model = load(forge(tmp_path / "model", endless()))
    assert isinstance(model.graph, Session)
    model.graph = SegmentSessions([model.graph], [1.0])
    with pytest.raises(PredictionError), model.limited(0.2):
        model.graph.segments[0].run(BRIGHT[None])
    assert model.graph.segments[0].limit is None


@pytest.mark.long
def test_a_value_beyond_float32_gives_no_prediction_and_json_stays_valid(table_model: Path, tmp_path: Path) -> None:
    rows = [{**row, "size": 1e300 if index == 2 else 3} for index, row in enumerate(table_rows(5))]
    code, summary, found, _ = predicted(table_model, write_csv(tmp_path / "new.csv", rows), "--coverage", 0.8)
    assert (code, summary["unusable"], found[2]["mean"], found[2]["in_interval"]) == (0, 1, "", "false")
    squares = [(float(row["mean"]) - float(row["true_value"])) ** 2 for row in found if row["mean"]]
    assert len(squares) == 4
    assert summary["mse"] == pytest.approx(np.mean(squares), rel=1e-4)  # the file has six digits


def test_no_number_of_a_summary_breaks_its_json(capsys: pytest.CaptureFixture[str]) -> None:
    from sae.cli.output import print_json

    print_json({"a": float("nan"), "b": [1.5, float("inf")], "c": {"d": (float("-inf"), 2)}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.5, None], "c": {"d": [None, 2]}}


@pytest.mark.parametrize("labels", [None, np.zeros(0, np.int64), np.zeros((0, 1), np.int64), np.zeros(0, "U3")])
def test_no_images_give_no_rows(tmp_path: Path, labels: np.ndarray | None) -> None:
    arrays = {"images": np.zeros((0, 16, 16), np.uint8)} | ({} if labels is None else {"labels": labels})
    np.savez(tmp_path / "x.npz", **arrays)
    code, summary, rows, _ = predicted(forge(tmp_path / "model", nan_below(0)), tmp_path / "x.npz")
    assert (code, summary["samples"], rows) == (0, 0, [])


@pytest.mark.long
@pytest.mark.parametrize("form", ["text", "dictionary", "leading zeros"])
def test_numbers_that_a_parquet_file_holds_as_texts_are_predicted_as_numbers(
    table_model: Path, tmp_path: Path, form: str
) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{**row, "size": index % 5} for index, row in enumerate(table_rows(9))]
    columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    texts = pa.array([f"{row['age']:05d}" if form == "leading zeros" else str(row["age"]) for row in rows])
    price = pa.array([str(row["price"]) for row in rows])
    changed = {"age": texts, "price": price}
    if form == "dictionary":
        changed = {name: array.dictionary_encode() for name, array in changed.items()}
    _, wanted, before, _ = predicted(table_model, write_csv(tmp_path / "new.csv", rows))
    parquet.write_table(pa.table({**columns, **changed}), tmp_path / "new.parquet")
    _, found, after, _ = predicted(table_model, tmp_path / "new.parquet")
    assert after == before
    assert found["mse"] == wanted["mse"]
