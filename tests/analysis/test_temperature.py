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
    """The temperature of the highest posterior among many, or of variances the mean squared standardised error."""
    if task == "regression":
        return float(
            np.mean([(y - mean) ** 2 / variance for (mean, variance), y in zip(numbers, targets, strict=True)])
        )
    log_probs, labels = torch.from_numpy(numbers), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        nll = torch.nn.functional.cross_entropy(log_probs / math.exp(log_temperature), labels, reduction="sum")
        return nll.item() + math.log(1 + (log_temperature / 0.5) ** 2)

    near = min(np.linspace(math.log(0.05), math.log(20), 400), key=loss)
    return math.exp(min(near + np.linspace(-0.02, 0.02, 401), key=loss))


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("count", [500, 2000])
def test_a_temperature_is_the_best_of_many(task: TaskName, count: int) -> None:
    for seed in range(3):
        numbers, targets = predictions(task, count, seed)
        found = temperature.fit_temperature(task, numbers, targets).value
        assert found == pytest.approx(naive_fit(task, numbers, targets), rel=2e-4)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("count", [3, 40, 120])
def test_on_few_samples_it_is_used_if_it_helps_held_out_ones(task: TaskName, count: int) -> None:
    for seed in range(3):
        numbers, targets = predictions(task, count, seed, sharpness=1.0 + seed)
        folds, gain = temperature.shuffled(count) % 5, 0.0
        for fold in set(folds.tolist()):
            held = folds == fold
            value = naive_fit(task, numbers[~held], targets[~held])
            scaled = temperature.tempered(task, numbers[held], value)
            gain += (temperature.losses(task, numbers, targets)[held]).sum()
            gain -= temperature.losses(task, scaled, targets[held]).sum()
        assert temperature.fit_temperature(task, numbers, targets).is_kept_at_one == (gain <= 0)


@pytest.mark.parametrize("sharpness", [0.001, 1000.0])
def test_a_temperature_stays_in_its_bounds(sharpness: float) -> None:
    numbers, labels = predictions("classification", 600, 0, sharpness)
    found = temperature.fit_temperature("classification", numbers, labels)
    assert found.is_bounded
    assert found.value in (temperature.COLDEST, temperature.HOTTEST)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_tempered_predictions_are_those_of_torch(task: TaskName) -> None:
    numbers, targets = predictions(task, 50, 0)
    scaled = calibration.calibrated(in_torch(task, numbers), 1.7)
    expected = (
        scaled.log_probs if isinstance(scaled, Categorical) else torch.stack([scaled.mean, scaled.variance], dim=1)
    )
    np.testing.assert_allclose(temperature.tempered(task, numbers, 1.7), expected.numpy(), rtol=1e-12)
    del targets


@settings(max_examples=30)
@given(st.integers(0, 600))
def test_numbers_are_shuffled_as_torch_does(count: int) -> None:
    expected = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    assert temperature.shuffled(count).tolist() == expected.tolist()
