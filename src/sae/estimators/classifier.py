"""The classifier."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from sae.core.errors import DataError
from sae.core.predictive import Categorical
from sae.data.dataset import Array
from sae.data.frames import as_text
from sae.deploy.conformal import class_sets
from sae.estimators.base import SaeEstimator
from sae.estimators.fitting import Rows
from sae.estimators.inputs import EstimatorError, as_value_errors, read_targets


class SAEClassifier(ClassifierMixin, SaeEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier with the interface of scikit-learn: one network that predicts like an ensemble.

    Besides the parameters of every estimator it has `class_weight`: "balanced", or the weight of each class in the
    loss. A fitted one has `classes_`, in the order of the columns of `predict_proba`, and
    `multilabel_`, whether several of them may hold.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> SAEClassifier(epochs=20, random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
        True
    """

    def __init__(
        self,
        *,
        method: str = "sae",
        task: str | None = None,
        inputs: int | None = None,
        exits: int | None = None,
        backbone: str | None = None,
        width: int | None = None,
        depth: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.2,
        refit: bool | None = None,
        class_weight: str | Mapping[object, float] | None = None,
        search: float | str | None = None,
        categories: Sequence[str] = (),
        dates: Sequence[str] = (),
        settings: Mapping[str, object] | None = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            method=method,
            task=task,
            inputs=inputs,
            exits=exits,
            backbone=backbone,
            width=width,
            depth=depth,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            patience=patience,
            validation_fraction=validation_fraction,
            refit=refit,
            search=search,
            categories=categories,
            dates=dates,
            settings=settings,
            device=device,
            n_jobs=n_jobs,
            verbose=verbose,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict(self, X: object) -> NDArray[np.generic]:  # noqa: N803
        """Return the most probable class of each row, (row,), or which of several labels hold, (row, label)."""
        probs = self.predict_proba(X)
        if self.multilabel_:
            return (probs > 0.5).astype(np.int64)
        labels = probs.argmax(axis=1)
        chosen: NDArray[np.generic] = self.classes_[labels]
        return chosen

    def predict_proba(self, X: object) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class, or that each of several labels holds, (row, class)."""
        predictive = self._predictive(X)
        assert isinstance(predictive, Categorical), "a classifier predicts classes"
        probs = predictive.probs.double().numpy()
        if self.multilabel_:
            return np.ascontiguousarray(probs[..., 1])
        normalised: NDArray[np.float64] = probs / probs.sum(axis=1, keepdims=True)  # float32 sums to 1 ± 1e-7
        return normalised

    def predict_set(self, X: object, coverage: float = 0.9) -> NDArray[np.bool_]:  # noqa: N803
        """Return which classes are in a set that holds the true class with this probability, (row, class).

        The promise is that of split conformal prediction: on average over rows like the validation rows.
        """
        probs = self.predict_proba(X)
        with as_value_errors():
            if self.multilabel_:
                raise EstimatorError("sets are for classes, one of which is right, but several labels may hold here")
            return class_sets(probs, self.network_.threshold(coverage))

    TASKS = ("classification", "ordinal")
    multilabel_ = False

    @property
    def _class_names(self) -> tuple[str, ...] | None:
        if self.multilabel_:
            return None
        return tuple(as_text(value) for value in self.classes_.tolist())

    def _learn_targets(self, y: object) -> Array:
        targets = read_targets(self, y)
        check_classification_targets(targets)
        self.multilabel_ = targets.ndim == 2
        if self.multilabel_:
            self.classes_ = np.arange(targets.shape[1])
            return _as_labels(targets)
        if self._task() == "ordinal" and targets.dtype.kind not in "iufb":
            raise DataError(f"classes in an order must be numbers, got {targets.tolist()[0]!r}: number them in order")
        self.classes_, labels = np.unique(targets, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"there must be at least 2 classes, got 1 class: {self.classes_.tolist()[0]!r}")
        encoded: Array = labels.astype(np.int64)
        return encoded

    def _encode_targets(self, y: object) -> Array:
        targets = read_targets(self, y)
        if self.multilabel_:
            return _as_labels(targets)
        strange = np.setdiff1d(targets, self.classes_)
        if len(strange):
            raise DataError(f"classes must be those of y, got {strange.tolist()[0]!r} in y_val")
        return np.searchsorted(self.classes_, targets).astype(np.int64)

    def _class_weights(self, rows: Rows) -> tuple[float, ...] | None:
        if self.class_weight is None:
            return None
        if self.multilabel_ or self._task() == "ordinal":
            raise EstimatorError("class_weight is for classes without an order, one of which is right: leave it out")
        labels = rows.targets[rows.train]
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[labels])
        return tuple((weights / weights[labels].mean()).tolist())  # so that a row counts 1 on average


def _as_labels(targets: NDArray[np.generic]) -> Array:
    """Return whether each label holds, (row, label)."""
    if targets.ndim != 2 or not np.isin(targets, (0, 1)).all():
        raise DataError("several targets of a classifier must be labels that are 0 or 1, (row, label)")
    return targets.astype(np.int64)
