"""A Gaussian process for a few hundred points: Matérn 5/2 with one lengthscale per column, and white noise.

A search needs several fits for every suggestion. With gradients in closed form, and priors that
prevent overfitting to few points, one fit takes a few hundredths of a second.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

Floats = NDArray[np.float64]

SQRT5 = np.sqrt(5.0)
LENGTHSCALE_BOUNDS = (0.05, 50.0)
SIGNAL_BOUNDS = (0.05, 20.0)
NOISE_BOUNDS = (1e-6, 1.0)
MAX_ITERATIONS = 40
"""Iterations of the fit; more would change the model less than the next trial does."""
MAX_FITTED = 150
"""Lengthscales, signal and noise are fitted to this many latest points; predictions use all points."""


@dataclass(frozen=True)
class GaussianProcess:
    """The posterior of a function that was observed at some points.

    Attributes:
        points: The observed points, (point, column), in the unit cube.
        values: The observed values, standardised, (point,).
        lengthscales: The distance along each column over which the function changes, (column,).
        signal: Variance of the function, in units of the variance of the values.
        noise: Variance of the observations around the function, in the same units.
        offset: Mean of the values.
        scale: Standard deviation of the values.
        factor: Lower Cholesky factor of the points' covariance, (point, point).
        weights: Its inverse times the standardised values, (point,).
    """

    points: Floats
    values: Floats
    lengthscales: Floats
    signal: float
    noise: float
    offset: float
    scale: float
    factor: Floats
    weights: Floats

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the function, without noise, (point,) each."""
        squared = _squared_distances(points / self.lengthscales, self.points / self.lengthscales)
        covariance = self.signal * _matern(np.sqrt(squared))
        mean = covariance @ self.weights
        explained = np.square(solve_triangular(self.factor, covariance.T, lower=True)).sum(axis=0)
        std = np.sqrt(np.maximum(self.signal - explained, 1e-12))
        return self.offset + self.scale * mean, self.scale * std

    def with_believed(self, points: Floats) -> "GaussianProcess":
        """Return the process as if its own mean had been observed at `points`."""
        believed = (self.predict(points)[0] - self.offset) / self.scale
        return _condition(
            np.concatenate([self.points, points]),
            np.concatenate([self.values, believed]),
            *(self.offset, self.scale, self.lengthscales, self.signal, self.noise),
        )


def fit(points: Floats, values: Floats) -> GaussianProcess:
    """Fit the process whose lengthscales, signal and noise are most probable given the values.

    Args:
        points: (point, column), in the unit cube.
        values: (point,), finite; may all be equal.
    """
    offset, scale = float(values.mean()), float(values.std())
    if not scale > 1e-12 * max(1.0, abs(offset)):
        scale = 1.0
    standardised = (values - offset) / scale
    hyper = _fit_hyper(points[-MAX_FITTED:], standardised[-MAX_FITTED:])
    return _condition(points, standardised, offset, scale, *hyper)


def _fit_hyper(points: Floats, values: Floats) -> tuple[Floats, float, float]:
    num_columns = points.shape[1]
    squared = np.square(points[:, None] - points).reshape(-1, num_columns)
    bounds = np.log([LENGTHSCALE_BOUNDS] * num_columns + [SIGNAL_BOUNDS, NOISE_BOUNDS])
    options = {"maxiter": MAX_ITERATIONS}
    found = minimize(
        _loss, _prior(num_columns)[0], (squared, values), "L-BFGS-B", jac=True, bounds=bounds, options=options
    )
    lengthscales, (signal, noise) = np.exp(found.x[:-2]), np.exp(found.x[-2:])
    return lengthscales, float(signal), float(noise)


def _condition(
    points: Floats, values: Floats, offset: float, scale: float, lengthscales: Floats, signal: float, noise: float
) -> GaussianProcess:
    scaled = points / lengthscales
    covariance = signal * _matern(np.sqrt(_squared_distances(scaled, scaled)))
    factor: Floats = np.linalg.cholesky(covariance + noise * np.eye(len(points))).astype(np.float64)
    weights = cho_solve((factor, True), values)
    return GaussianProcess(points, values, lengthscales, signal, noise, offset, scale, factor, weights)


def _squared_distances(one: Floats, other: Floats) -> Floats:
    products = np.square(one).sum(1)[:, None] + np.square(other).sum(1) - 2 * one @ other.T
    return np.asarray(np.maximum(products, 0.0))


def _matern(distance: Floats) -> Floats:
    scaled = SQRT5 * distance
    return np.asarray((1 + scaled + np.square(scaled) / 3) * np.exp(-scaled))


def _loss(log_hyper: Floats, squared: Floats, values: Floats) -> tuple[float, Floats]:
    """Return the negative log posterior density of the hyperparameters, and its gradient.

    Args:
        log_hyper: Logs of the lengthscales, the signal and the noise, (column + 2,).
        squared: Squared distances of all pairs of points along each column, (point · point, column).
        values: Standardised, (point,).
    """
    num_points, num_columns = len(values), squared.shape[1]
    inverse_squares = np.exp(-2 * log_hyper[:num_columns])
    signal, noise = np.exp(log_hyper[num_columns:])
    distance = np.sqrt(squared @ inverse_squares)
    kernel = signal * _matern(distance)
    factor = np.linalg.cholesky(kernel.reshape(num_points, num_points) + noise * np.eye(num_points))
    inverse = cho_solve((factor, True), np.eye(num_points))
    weights = inverse @ values
    loss = 0.5 * float(values @ weights) + float(np.log(np.diag(factor)).sum())
    slope = 0.5 * (inverse - np.outer(weights, weights))  # d loss / d covariance
    steepness = signal * 5 / 3 * (1 + SQRT5 * distance) * np.exp(-SQRT5 * distance)
    gradient = np.empty_like(log_hyper)
    gradient[:num_columns] = ((slope.ravel() * steepness) @ squared) * inverse_squares
    gradient[num_columns:] = slope.ravel() @ kernel, noise * np.trace(slope)
    centre, spread = _prior(num_columns)
    residual = (log_hyper - centre) / spread
    return loss + 0.5 * float(residual @ residual), gradient + residual / spread


def _prior(num_columns: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the prior of the log hyperparameters, (column + 2,) each.

    Lengthscales grow with the number of columns, as distances do (Hvarfner et al., 2024).
    """
    centre = np.array([0.5 * np.log(num_columns)] * num_columns + [0.0, np.log(1e-3)])
    return centre, np.array([1.0] * num_columns + [1.0, 2.0])
