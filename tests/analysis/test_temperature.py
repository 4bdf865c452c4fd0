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


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("count", [1, 3, 40, 499, 500, 2000])
def test_a_temperature_is_the_one_that_torch_fits(task: TaskName, count: int) -> None:
    for seed in range(3):
        numbers, targets = predictions(task, count, seed)
        expected = calibration.fit_temperature(in_torch(task, numbers), torch.from_numpy(targets)).value
        assert temperature.fit_temperature(task, numbers, targets) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("sharpness", [0.01, 100.0])
def test_a_temperature_stays_in_its_bounds(sharpness: float) -> None:
    numbers, labels = predictions("classification", 600, 0, sharpness)
    expected = calibration.fit_temperature(in_torch("classification", numbers), torch.from_numpy(labels)).value
    assert temperature.fit_temperature("classification", numbers, labels) == pytest.approx(expected, rel=1e-4)


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
