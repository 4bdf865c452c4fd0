import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sae.core.errors import DataError
from sae.core.predictive import Categorical, Gaussian
from sae.measure.calibration import calibrated, fit_temperature
from sae.measure.metrics import accuracy, nll, regression_nll


def random_categorical(seed: int, num_samples: int = 200, spread: float = 3.0) -> Categorical:
    generator = torch.Generator().manual_seed(seed)
    return Categorical((spread * torch.randn(num_samples, 4, generator=generator)).log_softmax(dim=1))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_a_known_temperature_is_recovered(temperature: float) -> None:
    truth = random_categorical(0, num_samples=50_000, spread=1.0)
    labels = torch.multinomial(truth.probs, 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
    distorted = calibrated(truth, 1 / temperature)  # sharper or flatter than its labels are
    assert fit_temperature(distorted, labels) == pytest.approx(temperature, rel=0.03)


def test_the_temperature_is_the_best_of_a_fine_grid() -> None:
    predictive = random_categorical(2)
    labels = torch.where(torch.arange(200) % 5 < 3, predictive.log_probs.argmax(dim=1), torch.arange(200) % 4)
    grid = [math.exp(x / 100) for x in range(-290, 290)]
    losses = [nll(_categorical(calibrated(predictive, t)), labels) for t in grid]
    best = grid[losses.index(min(losses))]
    assert fit_temperature(predictive, labels) == pytest.approx(best, rel=0.02)


@given(seed=st.integers(0, 10_000), spread=st.floats(0.01, 50))
def test_nll_on_the_fitting_data_never_grows_and_accuracy_stays(seed: int, spread: float) -> None:
    predictive = random_categorical(seed, 20, spread)
    labels = torch.randint(0, 4, (20,), generator=torch.Generator().manual_seed(seed))
    tempered = _categorical(calibrated(predictive, fit_temperature(predictive, labels)))
    assert nll(tempered, labels) <= nll(predictive, labels) + 1e-6
    assert accuracy(tempered, labels) == accuracy(predictive, labels)


def test_a_temperature_of_one_changes_nothing() -> None:
    predictive = random_categorical(3)
    torch.testing.assert_close(_categorical(calibrated(predictive, 1.0)).probs.float(), predictive.probs)


def test_classes_that_are_always_right_get_the_coldest_temperature() -> None:
    predictive = random_categorical(4)
    assert fit_temperature(predictive, predictive.log_probs.argmax(dim=1)) == pytest.approx(0.05, rel=1e-3)


def test_the_scale_of_variances_makes_the_mean_squared_standardised_error_one() -> None:
    generator = torch.Generator().manual_seed(0)
    predictive = Gaussian(torch.randn(100, generator=generator), torch.rand(100, generator=generator) + 0.1)
    targets = 3 * torch.randn(100, generator=generator)
    scaled = calibrated(predictive, fit_temperature(predictive, targets))
    assert isinstance(scaled, Gaussian)
    assert ((targets - scaled.mean).square() / scaled.variance).mean().item() == pytest.approx(1.0, rel=1e-5)
    assert torch.equal(scaled.mean, predictive.mean)
    assert regression_nll(scaled, targets) < regression_nll(predictive, targets)


def test_a_variance_cannot_be_fitted_to_exact_predictions() -> None:
    with pytest.raises(DataError, match="all predictions on the validation split are exact"):
        fit_temperature(Gaussian(torch.zeros(3), torch.ones(3)), torch.zeros(3))


def _categorical(predictive: Categorical | Gaussian) -> Categorical:
    assert isinstance(predictive, Categorical)
    return predictive
