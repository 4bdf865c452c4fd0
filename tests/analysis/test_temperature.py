import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sae.analysis import temperature
from sae.core.objectives import TaskName
from sae.core.predictive import Categorical, Gaussian, Predictive
from sae.measure import calibration
from sae.records.predictions import Numbers


def predictions(task: TaskName, count: int, seed: int, sharpness: float = 2.0) -> tuple[Numbers, np.ndarray]:
    rng = np.random.default_rng(seed)
    if task == "regression":
        return np.stack([rng.normal(size=count), rng.uniform(0.1, 2, count)], axis=1), rng.normal(size=count)
    logits = torch.from_numpy(sharpness * rng.normal(size=(count, 4)))
    right = rng.random(count) < 0.6
    labels = np.where(right, logits.argmax(dim=1).numpy(), rng.integers(0, 4, count))
    return logits.log_softmax(dim=1).numpy(), labels


def in_torch(task: TaskName, numbers: Numbers) -> Predictive:
    tensor = torch.from_numpy(numbers)
    return Categorical(tensor) if task == "classification" else Gaussian(tensor[:, 0], tensor[:, 1])


def naive_fit(task: TaskName, numbers: Numbers, targets: np.ndarray) -> float:
    """The best of many temperatures for samples, and for pseudo-samples with ten errors from the predictions."""
    if task == "regression":
        squared = [(y - mean) ** 2 / variance for (mean, variance), y in zip(numbers, targets, strict=True)]
        return float(np.mean([*squared, *[1.0] * 10]))
    log_probs, labels = torch.from_numpy(numbers), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        nll = torch.nn.functional.cross_entropy(log_probs / math.exp(log_temperature), labels, reduction="sum")
        expected = -(log_probs.exp() * (log_probs / math.exp(log_temperature)).log_softmax(dim=1)).sum(dim=1).mean()
        return float(nll + pseudo_samples * expected)

    errors = int((log_probs.argmax(dim=1) != labels).sum())
    of_itself = sum(1 - max(row) for row in log_probs.exp().tolist()) / len(labels)
    pseudo_samples = 10 / max((errors + 1) / (len(labels) + 1), of_itself)

    near = min(np.linspace(math.log(0.05), math.log(20), 400), key=loss)
    return math.exp(min(near + np.linspace(-0.02, 0.02, 401), key=loss))


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("count", [3, 40, 500, 2000])
def test_a_temperature_is_the_best_of_many(task: TaskName, count: int) -> None:
    for seed in range(3):
        numbers, targets = predictions(task, count, seed)
        found = temperature.fit_temperature(task, numbers, targets).value
        assert found == pytest.approx(naive_fit(task, numbers, targets), rel=2e-4)


@pytest.mark.parametrize("sharpness", [0.001, 1000.0])
def test_a_temperature_stays_in_its_bounds(sharpness: float) -> None:
    numbers, labels = predictions("classification", 600, 0, sharpness)
    found = temperature.fit_temperature("classification", numbers, labels)
    assert found.is_bounded
    assert found.fitted in (temperature.COLDEST, temperature.HOTTEST)
    assert found.value == 1.0


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_tempered_predictions_are_those_of_torch(task: TaskName) -> None:
    numbers, targets = predictions(task, 50, 0)
    scaled = calibration.calibrated(in_torch(task, numbers), 1.7)
    expected = (
        scaled.log_probs if isinstance(scaled, Categorical) else torch.stack([scaled.mean, scaled.variance], dim=1)
    )
    np.testing.assert_allclose(temperature.tempered(task, numbers, 1.7), expected.numpy(), rtol=1e-12)
    del targets


@pytest.mark.parametrize("count", [60, 120])
def test_a_handful_of_errors_does_not_make_it_worse(count: int) -> None:
    """Two errors in a hundred samples say little, but with a weak prior they raised the NLL by up to 0.039."""
    harms = []
    for seed in range(40):
        numbers, labels = hardly_wrong(seed, count)
        unseen, targets = hardly_wrong(1000 + seed, 4000)
        value = temperature.fit_temperature("classification", numbers, labels).value
        scaled = temperature.tempered("classification", unseen, value)
        pair = [temperature.losses("classification", each, targets).mean() for each in (scaled, unseen)]
        harms.append(pair[0] - pair[1])
    assert np.mean(harms) < 0.001
    assert max(harms) < 0.01


def test_a_network_that_is_far_too_modest_is_sharpened() -> None:
    """It makes one error in a hundred, and expects thirty: pseudo-samples of its own must not hold it there."""
    rng = np.random.default_rng(0)
    labels = (rng.random(600) < 0.01).astype(np.int64)
    numbers = np.log(np.tile([0.7, 0.3], (600, 1)))
    found = temperature.fit_temperature("classification", numbers, labels).value
    most_likely = math.log(0.7 / 0.3) / math.log(0.99 / 0.01)
    assert most_likely < found < 1.3 * most_likely


def hardly_wrong(seed: int, count: int) -> tuple[Numbers, np.ndarray]:
    """Two classes at 0.94 to 1, of which two in a hundred are wrong, whatever the probability says."""
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.94, 1, count)
    return np.log(np.stack([sure, 1 - sure], axis=1)), (rng.random(count) < 0.02).astype(np.int64)


@settings(max_examples=30)
@given(st.integers(0, 600))
def test_numbers_are_shuffled_as_torch_does(count: int) -> None:
    expected = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    assert temperature.shuffled(count).tolist() == expected.tolist()
