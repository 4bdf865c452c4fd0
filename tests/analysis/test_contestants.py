import numpy as np
import pytest

from sae.analysis.contestants import Contestant, scale
from sae.analysis.curves import ReliabilityBin
from sae.analysis.ensemble_equivalent import member_losses
from sae.analysis.sample_metrics import sample_metric
from sae.analysis.temperature import fit_temperature, tempered
from sae.records.predictions import Predictions, SplitPredictions

CLASSES = 3


def predictions(seed: int, samples: int = 600, sharpness: float = 3.0) -> Predictions:
    """Predictions of logits that are right more often than their probabilities say, if they are not sharp."""
    draw = np.random.default_rng(seed)
    splits = []
    for name in ("val", "test"):
        targets = draw.integers(0, CLASSES, samples)
        logits = sharpness * (draw.normal(size=(samples, CLASSES)) + 1.5 * np.eye(CLASSES)[targets])
        numbers = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        splits.append(SplitPredictions(name, targets, {1: numbers}))
    return Predictions("classification", *splits)


def test_scaled_metrics_are_those_of_predictions_at_the_fitted_temperature() -> None:
    runs = predictions(0), predictions(1)
    found = scale(Contestant("x", runs, (1, 1)))
    expected = []
    for run in runs:
        temperature = fit_temperature("classification", run.val.readings[1], run.val.targets).value
        numbers = tempered("classification", run.test.readings[1], temperature)
        expected.append(sample_metric("nll", "classification").value(numbers, run.test.targets))
    assert found.metrics["nll"].mean == pytest.approx(np.mean(expected))
    assert found.applied.mean > 1.5  # they were over-confident
    assert found.num_samples == 600
    assert found.num_bounded == 0


def test_the_bins_of_reliability_sum_to_the_calibration_error() -> None:
    run = predictions(0)
    found = scale(Contestant("x", (run,), (1,)))
    assert found.reliability is not None
    bins = [item for item in found.reliability.points if item.count]
    total = sum(item.count for item in bins)

    def gap(item: ReliabilityBin) -> float:
        assert item.accuracy is not None
        assert item.confidence is not None
        return item.count / total * abs(item.accuracy - item.confidence)

    assert sum(map(gap, bins)) == pytest.approx(found.metrics["ece"].mean)


def test_each_of_several_labels_is_a_sample_of_the_reliability() -> None:
    single = predictions(0)
    several = Predictions(
        "classification",
        *(
            SplitPredictions(
                split.samples, split.targets.reshape(-1, 2), {1: split.readings[1].reshape(-1, 2, CLASSES)}
            )
            for split in (single.val, single.test)
        ),
    )
    found, expected = (scale(Contestant("x", (run,), (1,))).reliability for run in (several, single))
    assert found == expected


def test_a_temperature_that_ran_to_its_bound_is_not_applied() -> None:
    targets = np.arange(600) % CLASSES
    doubtful = np.full((600, CLASSES), np.log(0.3333))
    doubtful[np.arange(600), targets] = np.log(0.3334)  # always right, and hardly sure
    split = SplitPredictions("s", targets, {1: doubtful})
    run = Predictions("classification", split, split)
    found = scale(Contestant("x", (run,), (1,)))
    assert found.num_bounded == 1
    assert found.applied.mean == 1.0
    raw = sample_metric("nll", "classification").value(doubtful, targets)
    assert found.metrics["nll"].mean == pytest.approx(raw)
    (compared,) = Contestant("x", (run,), (1,)).test_numbers("nll_scaled")
    np.testing.assert_allclose(compared, doubtful)
    members = SplitPredictions("s", targets, {1: doubtful}, np.stack([doubtful, doubtful]))
    (curve,) = member_losses(Contestant("x", (Predictions("classification", members, members),), (1,)))
    np.testing.assert_allclose(curve.mean(axis=1), [raw, raw])
