"""The regressor."""

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from sae.core.errors import DataError
from sae.core.predictive import Gaussian
from sae.data.dataset import Array
from sae.deploy.conformal import Values, intervals
from sae.estimators.base import SaeEstimator
from sae.estimators.inputs import as_value_errors, read_targets


class SAERegressor(RegressorMixin, SaeEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor with the interface of scikit-learn: one network that predicts like an ensemble.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = SAERegressor(epochs=10, random_state=0).fit(X[::2], y[::2])
        >>> lower, upper = model.predict_interval(X[1::2], coverage=0.9)
        >>> bool((lower < upper).all())
        True
    """

    TASKS = ("regression", "counts")

    def predict(self, X: object) -> NDArray[np.float64]:  # noqa: N803
        """Return the mean of each row's prediction, (row[, target])."""
        return self._gaussian(X)[0]

    def predict_std(self, X: object) -> NDArray[np.float64]:  # noqa: N803
        """Return the standard deviation of each row's prediction, (row[, target]): noise, and disagreement."""
        return np.sqrt(self._gaussian(X)[1])

    def predict_interval(self, X: object, coverage: float = 0.9) -> tuple[Values, Values]:  # noqa: N803
        """Return the lower and upper ends of intervals that hold the true value with this probability.

        They are (row[, target]) each; those of several targets all hold together with this probability. The promise
        is that of split conformal prediction: on average over rows like the validation rows.
        """
        mean, variance = self._gaussian(X)
        with as_value_errors():
            lower, upper = intervals(mean, variance, self.network_.threshold(coverage))
        return np.maximum(lower, 0.0) if self._task() == "counts" else lower, upper

    def _gaussian(self, x: object) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        predictive = self._predictive(x)
        assert isinstance(predictive, Gaussian), "a regressor predicts values"
        return predictive.mean.double().numpy(), predictive.variance.double().numpy()

    def _encode_targets(self, y: object) -> Array:
        targets = read_targets(self, y)
        try:
            values: Array = targets.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f"the target of a regression must be a number, got {targets.tolist()[0]!r}") from None
        return values
