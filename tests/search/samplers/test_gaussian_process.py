import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from sae.search.samplers.gaussian_process import _loss, fit

RNG = np.random.default_rng(0)
POINTS = RNG.random((30, 3))
VALUES = 5 + 2 * np.sin(4 * POINTS[:, 0]) + POINTS[:, 1]


def test_predictions_are_those_of_scikit_learn_with_the_same_kernel() -> None:
    process = fit(POINTS, VALUES)
    kernel = ConstantKernel(process.signal) * Matern(process.lengthscales, nu=2.5) + WhiteKernel(process.noise)
    reference = GaussianProcessRegressor(kernel, optimizer=None).fit(POINTS, (VALUES - VALUES.mean()) / VALUES.std())
    others = RNG.random((10, 3))
    expected, std = reference.predict(others, return_std=True)
    mean, own_std = process.predict(others)
    np.testing.assert_allclose(mean, VALUES.mean() + VALUES.std() * expected, rtol=1e-6)
    without_noise = np.sqrt(np.square(std) - process.noise)
    np.testing.assert_allclose(own_std, VALUES.std() * without_noise, rtol=1e-3, atol=1e-6)


def test_the_gradient_is_that_of_finite_differences() -> None:
    squared = np.square(POINTS[:, None] - POINTS).reshape(-1, 3)
    for _ in range(3):
        at = RNG.normal(size=5)
        error = check_grad(lambda h: _loss(h, squared, VALUES)[0], lambda h: _loss(h, squared, VALUES)[1], at)
        assert error < 1e-4 * np.linalg.norm(_loss(at, squared, VALUES)[1])


def test_a_column_without_influence_gets_a_longer_lengthscale() -> None:
    lengthscales = fit(POINTS, VALUES).lengthscales
    assert lengthscales[2] > 2 * lengthscales[0]


def test_believed_points_keep_the_mean_and_take_the_doubt() -> None:
    process, points = fit(POINTS, VALUES), RNG.random((4, 3))
    believing = process.with_believed(points)
    others = RNG.random((10, 3))
    np.testing.assert_allclose(believing.predict(others)[0], process.predict(others)[0], rtol=1e-4)
    assert (believing.predict(points)[1] < process.predict(points)[1]).all()


@pytest.mark.parametrize("num_points", [1, 2, 200])
def test_equal_values_are_expected_everywhere(num_points: int) -> None:
    process = fit(RNG.random((num_points, 2)), np.full(num_points, 1e6))
    np.testing.assert_allclose(process.predict(RNG.random((5, 2)))[0], 1e6)
