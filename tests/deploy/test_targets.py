"""From a table to predictions in the base install, for tasks beyond classes and single values."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import sae
from sae.core.predictive import Categorical, Gaussian
from sae.data.batches import evaluation_batches
from sae.deploy.answers import predict_to_file
from sae.deploy.export import export
from sae.deploy.runtime import ClassPrediction, LabelPrediction, ValuePrediction
from sae.deploy.sources import read_chunks
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.run import preparation, restore, train
from tests.builders import run_config
from tests.data.samples import write_csv

pytestmark = pytest.mark.long

NAMES = ("ill", "tall", "high", "wide", "level", "visits")
TARGETS: dict[str, tuple[str, object]] = {
    "ordinal": ("ordinal", "level"),
    "counts": ("counts", "visits"),
    "labels": ("classification", ("ill", "tall")),
    "values": ("regression", ("high", "wide")),
}


def write_table(path: Path) -> Path:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((150, 3))
    noisy = x + 0.3 * generator.standard_normal((150, 3))
    targets = {
        "ill": (noisy[:, 0] > 0).astype(int),
        "tall": np.where(noisy[:, 1] > 0, "yes", "no"),
        "high": 100 + 10 * noisy[:, 0],
        "wide": noisy[:, 1],
        "level": np.digitize(noisy[:, 0], [-0.5, 0.5]),
        "visits": generator.poisson(np.exp(x[:, 2])),
    }
    rows = [
        {f"x{i}": x[row, i] for i in range(3)} | {name: values[row] for name, values in targets.items()}
        for row in range(len(x))
    ]
    return write_csv(path / "t.csv", rows)


@pytest.fixture(scope="module", params=TARGETS)
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    task, target = TARGETS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    wanted = [target] if isinstance(target, str) else target
    assert isinstance(wanted, list | tuple)
    data = {
        "name": str(write_table(folder)),
        "task": task,
        "target": target,
        "ignore": [name for name in NAMES if name not in wanted],
    }
    config = run_config(data=data, method={"name": "sae", "inputs": 2, "exits": 2}, train={"epochs": 3, "lr": 3e-3})
    train(config, folder / "run")
    export(folder / "run", folder / "shipped" / "model.onnx", calibrate=True)
    return request.param, folder


def test_the_file_predicts_what_the_network_predicts(shipped: tuple[str, Path]) -> None:
    _, folder = shipped
    model = sae.load(folder / "shipped")
    method, dataset = restore(RunRecord(folder / "run"))
    batches = evaluation_batches(dataset.test.inputs, preparation(dataset, "cpu"))
    predictive = predictive_at(method, member_outputs(method, batches), model.manifest.network.eval_exits)
    prediction = model.predict(dataset.test.inputs[:])
    if isinstance(predictive, Gaussian):
        assert isinstance(prediction, ValuePrediction)
        np.testing.assert_allclose(prediction.mean, predictive.mean.numpy(), rtol=1e-5, atol=1e-5)
        return
    assert isinstance(predictive, Categorical)
    part = model.manifest.calibration
    assert part is not None
    probs = (predictive.log_probs.double() / part.temperature).softmax(dim=-1)
    if isinstance(prediction, LabelPrediction):
        probs = probs[..., 1]
    assert isinstance(prediction, LabelPrediction | ClassPrediction)
    torch.testing.assert_close(torch.from_numpy(prediction.probs).double(), probs, atol=1e-5, rtol=0)


def test_a_table_is_predicted_with_the_truth_beside_it(shipped: tuple[str, Path]) -> None:
    name, folder = shipped
    model = sae.load(folder / "shipped")
    coverage = None if name == "labels" else 0.8
    chunks = read_chunks([folder / "t.csv"], model.manifest, "test")
    summary = predict_to_file(model, chunks, folder / "p.csv", coverage=coverage)
    with (folder / "p.csv").open() as file:
        first = next(csv.DictReader(file))
    wanted = {
        "ordinal": {"class", "true_class", "in_set", "p_0", "p_2"},
        "counts": {"mean", "lower", "upper", "true_value", "in_interval"},
        "labels": {"label_ill", "p_ill", "true_ill", "label_tall", "all_correct"},
        "values": {"mean_high", "std_high", "lower_wide", "true_wide", "in_interval"},
    }[name]
    assert wanted <= first.keys()
    assert summary["samples"] == 150
    if coverage:
        assert summary["coverage"] > 0.7


def test_intervals_of_counts_begin_at_0(shipped: tuple[str, Path]) -> None:
    name, folder = shipped
    model = sae.load(folder / "shipped")
    if name != "counts":
        assert model.manifest.target.smallest is None
        return
    prediction = model.predict(np.zeros((1, 3)))
    lower, upper = model.intervals(prediction, 0.95)
    assert lower[0] == 0 < upper[0]
