"""Shipping a network that was trained again, with the validation samples, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sae.analysis.selection import select
from sae.cli import app
from sae.core.errors import ConfigError, DataWarning, OtherModelError, RecordWarning
from sae.core.predictive import Gaussian
from sae.data.batches import evaluation_batches
from sae.data.binding import Whereabouts
from sae.data.splits import trained_on
from sae.deploy.conformal import keep_scores, value_scores
from sae.deploy.export import export
from sae.deploy.manifest import NAME, Manifest, read_manifest
from sae.deploy.receipt import ship_pick
from sae.deploy.runtime import ClassPrediction, load
from sae.records.receipt import PICK
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.training.checkpoint import trained_method
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.refit import refit
from sae.training.run import preparation, restore, train
from tests.builders import run_config
from tests.data.samples import table_rows, write_csv
from tests.studies import study_config

pytestmark = pytest.mark.long

FC = {"name": "fc", "depth": 2}
TRAIN = {"epochs": 3, "batch_size": 16, "patience": 3}


def table(folder: Path, **more: str) -> dict[str, Any]:
    path = write_csv(folder / "data.csv", table_rows(80))
    return {"name": str(path), "task": "regression", "target": "price", **more}


def classes(folder: Path) -> dict[str, Any]:
    """The table with a target of classes, which is trained again by default."""
    return table(folder, task="classification", target="kind")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    folder = tmp_path_factory.mktemp("table")
    return train(run_config(data=table(folder), backbone=FC, train=TRAIN), folder / "run")


@pytest.fixture(scope="module")
def shipped(run: RunRecord) -> Manifest:
    return export(run.path, run.path.parent / "refitted" / "model.onnx", refit=True)


def test_the_graph_is_the_network_that_has_seen_all_samples(run: RunRecord, shipped: Manifest) -> None:
    again, (_, dataset) = refit(run).whole, restore(run)
    evaluation = again.read_evaluation().test.chosen
    assert shipped.run.weights_sha256 == again.hash_of(again.MODEL) != run.hash_of(run.MODEL)
    assert shipped.metrics["test"]["nll"] == pytest.approx(evaluation.metrics["nll"], abs=1e-4)
    assert shipped.refit is not None
    assert shipped.refit.samples == len(dataset.train) + len(dataset.val)
    assert shipped.refit.nll_before == run.read_evaluation().test.chosen.metrics["nll"]
    assert f"Trained again on all {shipped.refit.samples} training and validation samples" in shipped.refit.text


def test_conformal_scores_are_those_of_the_folds_on_samples_that_they_have_not_seen(
    run: RunRecord, shipped: Manifest
) -> None:
    """Another road: each fold validated exactly these samples when its run was recorded."""
    folds = refit(run).folds
    scores = [_scores_of(fold, run) for fold in folds]
    assert shipped.conformal is not None
    expected = keep_scores(np.concatenate(scores), "standardised_error")
    np.testing.assert_allclose(shipped.conformal.calibration.scores, expected.scores, rtol=1e-4)
    halves = [fold.read_evaluation().val.chosen.metrics["nll"] for fold in folds]
    assert shipped.metrics["val"]["nll"] == pytest.approx(np.mean(halves), abs=1e-4)  # both halves have 8 samples


def _scores_of(fold: RunRecord, run: RunRecord) -> np.ndarray:
    dataset = trained_on(restore(run)[1], fold.read_config().train.val_too, 0)
    method = trained_method(fold, dataset)
    outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, preparation(dataset, "cpu")))
    found = predictive_at(method, outputs, method.exits)
    assert isinstance(found, Gaussian)
    return value_scores(found.mean.numpy(), found.variance.numpy(), dataset.val.targets)


def test_the_same_export_again_gives_the_same_graph(run: RunRecord, shipped: Manifest, tmp_path: Path) -> None:
    assert export(run.path, run.path.parent / "refitted" / "model.onnx", refit=True) == shipped
    assert export(run.path, tmp_path / "model.onnx", refit=True).graph.sha256 == shipped.graph.sha256


def test_with_and_without_it_are_two_models(run: RunRecord, shipped: Manifest) -> None:
    with pytest.raises(OtherModelError, match=r"float32, trained again with the validation samples\)"):
        export(run.path, run.path.parent / "refitted" / shipped.graph.file)


def test_a_temperature_is_fitted_on_the_predictions_of_the_folds(run: RunRecord, tmp_path: Path) -> None:
    """The pooled validation predictions are at the temperature of the graph: no other lowers their NLL."""
    manifest = export(run.path, tmp_path / "model.onnx", refit=True, calibrate=True)
    assert manifest.calibration is not None
    if manifest.calibration.remark is None:
        assert manifest.metrics["val"]["nll"] < manifest.calibration.raw["val"]["nll"]
    assert manifest.calibration.samples == len(restore(run)[1].val)


def test_it_is_quantised_with_its_folds(run: RunRecord, tmp_path: Path) -> None:
    manifest = export(run.path, tmp_path / "model.onnx", refit=True, int8=True)
    assert manifest.quantisation is not None
    assert manifest.metrics["val"]["nll"] != manifest.quantisation.float32.metrics["val"]["nll"]


def test_of_a_split_in_time_the_later_half_calibrates(tmp_path: Path) -> None:
    data = table(tmp_path, time="age")
    run = train(run_config(data=data, backbone=FC, train=TRAIN), tmp_path / "run")
    manifest = export(run.path, tmp_path / "shipped" / "model.onnx", refit=True)
    assert manifest.conformal is not None
    assert manifest.refit is not None
    assert manifest.conformal.calibration.samples == len(restore(run)[1].val) / 2
    assert "one more network, trained with the earlier half" in manifest.refit.text


def test_what_cannot_be_combined_is_refused(run: RunRecord, tmp_path: Path) -> None:
    refused = CliRunner().invoke(
        app, ["export", str(run.path), "--out", str(tmp_path / "model.onnx"), "--refit", "--adaptive"]
    )
    assert refused.exit_code == 2
    assert "--refit and --adaptive cannot be combined" in " ".join(refused.output.split())
    write_csv(tmp_path / "other.csv", table_rows(81))
    where = Whereabouts(tmp_path / "other.csv", allow_other=True)
    with pytest.warns(DataWarning), pytest.raises(ConfigError, match="on its own data only"):
        export(run.path, tmp_path / "model.onnx", refit=True, where=where)


def small_study(folder: Path, data: dict[str, Any]) -> StudyRecord:
    """A study of one trained SAE and one standard network."""
    task = data.get("task", "regression")
    plan = study_config(str(data["name"]), ("sae", "standard"), task=task, objectives=("nll", "flops"))
    record = StudyRecord.create(folder / "study", plan)
    for method in ("sae", "standard"):
        config = run_config(data=data, backbone=FC, method={"name": method}, train=TRAIN)
        train(config, record.trial(method, 0, config).path)
    return record


def test_the_pick_of_a_study_on_an_own_table_is_trained_again_by_default(tmp_path: Path) -> None:
    record = small_study(tmp_path, classes(tmp_path))
    selection, out = select(record), tmp_path / "shipped" / "model.onnx"
    manifest, receipt = ship_pick(selection, out)
    assert manifest.refit is not None
    assert receipt.refit == manifest.refit
    assert receipt.rows[PICK].metrics == manifest.metrics["test"]
    assert receipt.rows[PICK].run == str(selection.pick().candidate.shipped.record.path)
    prediction = load(out).predict([{"age": 30, "colour": "red", "price": 10.0}])
    assert isinstance(prediction, ClassPrediction)
    assert manifest.refit.text in (out.parent / "README.md").read_text().replace("\n", " ")
    told = CliRunner().invoke(app, ["export", str(record.path), "--out", str(out)])
    assert "Its rivals were trained on the training samples alone." in " ".join(told.output.split())

    plain, receipt = ship_pick(selection, tmp_path / "plain" / "model.onnx", refit=False)
    assert plain.refit is receipt.refit is None
    assert plain.run.weights_sha256 == selection.pick().candidate.shipped.record.hash_of(RunRecord.MODEL)


def test_a_shipped_set_is_not_trained_again_by_default(tmp_path: Path) -> None:
    record = small_study(tmp_path, {"name": "diabetes"})
    assert ship_pick(select(record), tmp_path / "shipped" / "model.onnx")[0].refit is None


def test_values_are_not_trained_again_by_default(tmp_path: Path) -> None:
    record = small_study(tmp_path, table(tmp_path))
    assert ship_pick(select(record), tmp_path / "shipped" / "model.onnx")[0].refit is None


def test_a_pick_that_cannot_be_trained_again_is_shipped_as_it_was(tmp_path: Path) -> None:
    record = small_study(tmp_path, classes(tmp_path))
    selection = select(record)
    run, out = selection.pick().candidate.shipped.record, tmp_path / "shipped" / "model.onnx"
    status = run.read_status()
    assert status is not None
    run.write_json(run.STATUS, {**status.model_dump(mode="json", exclude_none=True), "derived_from": "another"})
    with pytest.warns(RecordWarning, match="shipped as it was, not trained again: .* taken from another run"):
        assert ship_pick(selection, out)[0].refit is None
    assert read_manifest(out.parent / NAME).run.weights_sha256 == run.hash_of(run.MODEL)
    with pytest.raises(ConfigError, match="taken from another run"):
        ship_pick(selection, out, refit=True)


def test_limits_on_costs_hold_for_the_network_that_is_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = small_study(tmp_path, classes(tmp_path))
    selection = select(record, maximum={"flops": 1e9}, methods=("sae",))
    chosen = selection.pick().candidate
    assert ship_pick(selection, tmp_path / "one" / "model.onnx")[0].refit is not None
    strict = select(record, maximum={"flops": chosen.values["flops"]}, methods=("sae",))
    again = refit(chosen.shipped.record).whole
    monkeypatch.setattr(type(again.read_evaluation()), "costs", lambda *_: {"flops": chosen.values["flops"] + 1})
    with pytest.warns(RecordWarning, match="must still meet the limits, but breaks flops"):
        assert ship_pick(strict, tmp_path / "two" / "model.onnx")[0].refit is None


def test_the_page_says_that_the_file_was_trained_again(tmp_path: Path) -> None:
    record = small_study(tmp_path, classes(tmp_path))
    ship_pick(select(record), record.path / record.SHIPPED / record.MODEL)
    report = report_of([record])
    assert "Trained again on all" in str(report)
