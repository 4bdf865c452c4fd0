"""Runs whose images are each standardised, from the setting to the exported graph."""

import json
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import ConfigError
from sae.data.catalogue import load as load_data
from sae.deploy.export import export
from sae.deploy.runtime import ClassPrediction, load
from sae.records.run import RunRecord
from sae.training.run import restore, train
from sae.training.run_evaluation import evaluate
from tests.builders import run_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(run_config(data={"standardise": "image"}), tmp_path_factory.mktemp("runs") / "run")


def test_a_run_records_it_and_is_restored_with_it(run: RunRecord) -> None:
    _, dataset = restore(run)
    assert dataset.normalisation.each_image
    assert json.loads((run.path / run.DATA).read_text())["normalisation"]["each_image"] is True
    again = evaluate(run.path, "test")
    assert again.metrics == pytest.approx(run.read_evaluation().test.at(again.exits).metrics)


def test_without_it_files_are_as_before(tmp_path: Path) -> None:
    record = train(run_config(train={"epochs": 1}), tmp_path / "run")
    assert list(json.loads((record.path / record.DATA).read_text())["normalisation"]) == ["mean", "std"]
    assert "standardise" not in (record.path / record.CONFIG).read_text()


def test_samples_that_are_no_images_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.standardise=image needs images, but diabetes is a table"):
        load_data(run_config(data={"name": "diabetes", "standardise": "image"}).data)


@pytest.mark.slow
def test_the_exported_graph_standardises_images_as_training_does(run: RunRecord, tmp_path: Path) -> None:
    manifest = export(run.path, tmp_path / "model.onnx")
    assert manifest.input.each_image
    assert manifest.parity.largest_difference <= manifest.parity.tolerance
    _, dataset = restore(run)
    model, images = load(tmp_path / "model.onnx"), dataset.test.inputs[:20] // 4
    dark, bright = model.predict(images), model.predict(2 * images + 9)
    assert isinstance(dark, ClassPrediction)
    assert isinstance(bright, ClassPrediction)
    np.testing.assert_allclose(dark.probs, bright.probs, atol=1e-3)
