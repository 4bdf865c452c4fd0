"""Estimators with the interface of scikit-learn: `SAEClassifier` and `SAERegressor`."""

from sae.estimators.classifier import SAEClassifier
from sae.estimators.regressor import SAERegressor

__all__ = ["SAEClassifier", "SAERegressor"]
