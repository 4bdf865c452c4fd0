import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.core.predictive import Categorical
from sae.data.batches import Preparation, evaluation_batches
from sae.records.run import RunRecord
from sae.training.class_weights import balanced_weights
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.run import restore, train
from tests.builders import run_config

RARE = 0.05


def write_rare(path: Path) -> Path:
    """A table in which one class is rare, and overlaps with the other."""
    rng = np.random.default_rng(0)
    labels = (np.arange(800) < RARE * 800).astype(int)
    inputs = rng.normal(size=(800, 3)) + labels[:, None]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [["a", "b", "c", "y"], *([*x, f"class {y}"] for x, y in zip(inputs, labels, strict=True))]
        )
    return path


def config_of(folder: Path, class_weights: str, method: str = "standard") -> RunConfig:
    data = {"name": str(write_rare(folder / "rare.csv")), "task": "classification", "target": "y"}
    return run_config(data=data, method=method, train={"epochs": 8, "class_weights": class_weights})


def rare_share(record: RunRecord) -> float:
    """The mean probability of the rare class on the test split."""
    method, dataset = restore(record)
    prepare = Preparation(dataset.normalisation, 1, torch.device("cpu"))
    outputs = member_outputs(method, evaluation_batches(dataset.test.inputs, prepare))
    predictive = predictive_at(method, outputs, method.exits)
    assert isinstance(predictive, Categorical)
    return predictive.probs[:, 1].mean().item()


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    labels = np.random.default_rng(0).choice(4, 100, p=[0.7, 0.2, 0.05, 0.05])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=labels)
    np.testing.assert_allclose(balanced_weights(labels, 4), expected)


def test_a_class_without_samples_does_not_divide_by_zero() -> None:
    assert balanced_weights(np.array([0, 0, 2, 2]), 3) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("method", ["standard", "sae", "mc_dropout", "batch_ensemble"])
def test_a_rare_class_is_predicted_more_often(method: str, tmp_path: Path) -> None:
    plain = train(config_of(tmp_path, "none", method), tmp_path / "plain")
    balanced = train(config_of(tmp_path, "balanced", method), tmp_path / "balanced")
    assert rare_share(balanced) > 2 * rare_share(plain)


@pytest.mark.slow
def test_members_in_processes_are_weighted_too(tmp_path: Path) -> None:
    config = config_of(tmp_path, "balanced", "ensemble")
    alone, together = train(config, tmp_path / "alone"), train(config, tmp_path / "together", processes=2)
    assert (alone.path / RunRecord.MODEL).read_bytes() == (together.path / RunRecord.MODEL).read_bytes()


def test_regression_has_no_classes_to_weigh(tmp_path: Path) -> None:
    config = run_config(data={"name": "diabetes"}, train={"class_weights": "balanced"})
    with pytest.raises(ConfigError, match=r"train\.class_weights must be none for regression, got balanced"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
