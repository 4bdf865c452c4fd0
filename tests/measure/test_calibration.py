import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sae.core.predictive import Categorical, Gaussian
from sae.measure.calibration import calibrated, fit_temperature, held_out_temperatures
from sae.measure.metrics import accuracy, nll, regression_nll


def random_categorical(seed: int, num_samples: int = 200, spread: float = 3.0) -> Categorical:
    generator = torch.Generator().manual_seed(seed)
    return Categorical((spread * torch.randn(num_samples, 4, generator=generator)).log_softmax(dim=1))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_a_known_temperature_is_recovered(temperature: float) -> None:
    truth = random_categorical(0, num_samples=50_000, spread=1.0)
    labels = torch.multinomial(truth.probs, 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
    distorted = calibrated(truth, 1 / temperature)  # sharper or flatter than its labels are
    assert fit_temperature(distorted, labels).value == pytest.approx(temperature, rel=0.03)


@pytest.mark.parametrize(("num_samples", "within"), [(500, 0.05), (5_000, 0.005)])
def test_the_temperature_is_the_best_of_a_fine_grid_as_the_prior_vanishes(num_samples: int, within: float) -> None:
    predictive, index = random_categorical(2, num_samples), torch.arange(num_samples)
    labels = torch.where(index % 5 < 3, predictive.log_probs.argmax(dim=1), index % 4)
    grid = [math.exp(x / 400) for x in range(0, 1200)]
    losses = [nll(_categorical(calibrated(predictive, t)), labels) for t in grid]
    best = grid[losses.index(min(losses))]
    assert fit_temperature(predictive, labels).value == pytest.approx(best, rel=within)


@given(seed=st.integers(0, 10_000), spread=st.floats(0.01, 50))
def test_nll_on_the_fitting_data_never_grows_and_accuracy_stays(seed: int, spread: float) -> None:
    predictive = random_categorical(seed, 20, spread)
    labels = torch.randint(0, 4, (20,), generator=torch.Generator().manual_seed(seed))
    tempered = _categorical(calibrated(predictive, fit_temperature(predictive, labels).value))
    assert nll(tempered, labels) <= nll(predictive, labels) + 1e-6
    assert accuracy(tempered, labels) == accuracy(predictive, labels)


def test_a_temperature_of_one_changes_nothing() -> None:
    predictive = random_categorical(3)
    torch.testing.assert_close(_categorical(calibrated(predictive, 1.0)).probs.float(), predictive.probs)


@pytest.mark.parametrize("spread", [10.0, 30.0])  # so that few or none of 69 are predicted wrong
@pytest.mark.parametrize("flatness", [1.0, 2.0])
def test_few_samples_do_not_make_predictions_overconfident(spread: float, flatness: float) -> None:
    """On 69 rows of penguins, all predicted right, T ran to its bound, and the test NLL from 0.14 to 1.47."""
    worst = 0.0
    for seed in range(20):
        truth = random_categorical(seed, 3069, spread)
        labels = torch.multinomial(truth.probs, 1, generator=torch.Generator().manual_seed(seed)).squeeze(1)
        predictive = _categorical(calibrated(truth, flatness))
        few, rest = Categorical(predictive.log_probs[:69]), Categorical(predictive.log_probs[69:])
        tempered = _categorical(calibrated(rest, fit_temperature(few, labels[:69]).value))
        worst = max(worst, nll(tempered, labels[69:]) - nll(rest, labels[69:]))
    assert worst < 0.05


def test_classes_that_are_always_right_and_never_sure_get_the_coldest_temperature() -> None:
    predictive = random_categorical(4, num_samples=20_000, spread=1e-3)
    found = fit_temperature(predictive, predictive.log_probs.argmax(dim=1))
    assert (found.fitted, found.value) == (0.05, 1.0)
    assert found.is_bounded
    assert str(found.remark).startswith("T stopped at the bound 0.05 of [0.05, 20]")


def test_a_fitted_temperature_within_bounds_needs_no_remark() -> None:
    truth = random_categorical(6, num_samples=600, spread=2.0)
    labels = torch.multinomial(truth.probs, 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
    found = fit_temperature(_categorical(calibrated(truth, 0.4)), labels)
    assert 2 < found.value < 3
    assert found.remark is None


@pytest.mark.parametrize("num_samples", [1, 2, 4])
def test_a_handful_of_samples_can_be_fitted(num_samples: int) -> None:
    predictive = random_categorical(8, num_samples)
    assert 0.05 <= fit_temperature(predictive, torch.zeros(num_samples, dtype=torch.long)).value <= 20


def test_the_scale_of_variances_nearly_makes_the_mean_squared_standardised_error_one() -> None:
    generator = torch.Generator().manual_seed(0)
    predictive = Gaussian(torch.randn(100, generator=generator), torch.rand(100, generator=generator) + 0.1)
    targets = 3 * torch.randn(100, generator=generator)
    scaled = calibrated(predictive, fit_temperature(predictive, targets).value)
    assert isinstance(scaled, Gaussian)
    squared = (targets - predictive.mean).square() / predictive.variance
    expected = predictive.variance * (squared.sum() + 10) / 110  # ten pseudo-samples, whose squared error is 1
    torch.testing.assert_close(scaled.variance, expected)
    assert torch.equal(scaled.mean, predictive.mean)
    assert regression_nll(scaled, targets) < regression_nll(predictive, targets)


def test_the_variance_of_exact_predictions_shrinks_as_far_as_their_number_tells() -> None:
    exact = Gaussian(torch.zeros(30), torch.ones(30))
    assert fit_temperature(exact, torch.zeros(30)).value == pytest.approx(0.25)  # ten pseudo-samples in forty


def _categorical(predictive: Categorical | Gaussian) -> Categorical:
    assert isinstance(predictive, Categorical)
    return predictive


def folds(num_samples: int) -> torch.Tensor:
    return torch.randperm(num_samples, generator=torch.Generator().manual_seed(0)) % 5


@pytest.mark.parametrize("distortion", [0.1, 0.4, 1.0, 3.0])
def test_held_out_temperatures_are_those_fitted_on_the_other_folds(distortion: float) -> None:
    truth = random_categorical(7, num_samples=700, spread=2.0)
    labels = torch.multinomial(truth.probs, 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
    predictive = _categorical(calibrated(truth, distortion))
    found = held_out_temperatures(predictive, labels)
    for fold in range(5):
        kept = folds(700) != fold
        alone = fit_temperature(Categorical(predictive.log_probs[kept]), labels[kept])
        torch.testing.assert_close(found[~kept], torch.full_like(found[~kept], alone.value), rtol=1e-5, atol=0)


def test_held_out_temperatures_at_the_bound_are_not_used() -> None:
    predictive = random_categorical(4, num_samples=2_000, spread=1e-3)
    labels = predictive.log_probs.argmax(dim=1)
    found = held_out_temperatures(predictive, labels)
    assert found.eq(1).all()


def test_held_out_scales_of_variances_are_those_of_the_other_folds() -> None:
    generator = torch.Generator().manual_seed(0)
    predictive = Gaussian(torch.randn(600, generator=generator), torch.rand(600, generator=generator) + 0.1)
    targets = 3 * torch.randn(600, generator=generator)
    found = held_out_temperatures(predictive, targets)
    squared = (targets - predictive.mean).square() / predictive.variance
    for fold in range(5):
        kept = folds(600) != fold
        assert found[~kept].unique().item() == pytest.approx(
            torch.cat([squared[kept], torch.ones(10)]).mean().item(), rel=1e-5
        )


def test_a_temperature_for_each_sample_scales_that_sample() -> None:
    predictive = random_categorical(3, num_samples=5)
    temperatures = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    together = _categorical(calibrated(predictive, temperatures)).probs
    for index, temperature in enumerate(temperatures.tolist()):
        torch.testing.assert_close(together[index], _categorical(calibrated(predictive, temperature)).probs[index])
