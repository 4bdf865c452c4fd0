"""A surrogate of training on digits: predicts nll, cc_ece and flops of a configuration from recorded runs."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import cross_val_predict

from benchmarks.surrogate.collect import ENDS, FLOATS, INTS, LOG_FLOATS, OBJECTIVES

Floats = NDArray[np.float64]

FILE = Path(__file__).with_name("digits.csv")
SPACE: dict[str, BaseDistribution] = {
    **{name: IntDistribution(*bounds) for name, bounds in INTS.items()},
    **{f"{name}.{end}": FloatDistribution(*bounds) for name, bounds in FLOATS.items() for end in ENDS},
    **{f"{name}.{end}": FloatDistribution(*bounds, log=True) for name, bounds in LOG_FLOATS.items() for end in ENDS},
}
LOG_COLUMNS = [f"{name}.{end}" for name in LOG_FLOATS for end in ENDS]


class DigitsSurrogate:
    """Extremely randomised trees on log nll, cc_ece and log flops.

    Attributes:
        ideal: The best recorded value of each objective.
        reference: A bad value of each objective: nine in ten recorded runs are better.
    """

    def __init__(self) -> None:
        with FILE.open(newline="") as file:
            rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        self.inputs = np.stack([_columns(row) for row in rows])
        recorded = np.array([[row[name] for name in OBJECTIVES] for row in rows])
        self.targets = _losses(recorded)
        self.ideal = self.targets.min(axis=0)
        self.reference = np.quantile(self.targets, 0.9, axis=0)
        self.trees = _trees().fit(self.inputs, self.targets)

    def __call__(self, params: Mapping[str, Any]) -> list[float]:
        """Predict log nll, cc_ece and log flops of a configuration."""
        predicted: list[float] = self.trees.predict(_columns(params)[None])[0].tolist()
        return predicted

    def scores(self) -> dict[str, float]:
        """Return the R² of each objective in ten-fold cross-validation."""
        predicted = cross_val_predict(_trees(), self.inputs, self.targets, cv=10)
        residual = np.square(self.targets - predicted).sum(axis=0)
        total = np.square(self.targets - self.targets.mean(axis=0)).sum(axis=0)
        return dict(zip(("log nll", "cc_ece", "log flops"), (1 - residual / total).tolist(), strict=True))


def _trees() -> ExtraTreesRegressor:
    return ExtraTreesRegressor(200, min_samples_leaf=2, random_state=0)


def _columns(params: Mapping[str, Any]) -> Floats:
    return np.array([np.log(params[name]) if name in LOG_COLUMNS else params[name] for name in SPACE])


def _losses(recorded: Floats) -> Floats:
    nll, cc_ece, flops = recorded.T
    return np.stack([np.log(nll), cc_ece, np.log(flops)], axis=1)
