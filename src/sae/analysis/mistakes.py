"""Mistakes of a network on a split and its confidence in them: by sample, class, segment and residual."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
PARTS = 4
"""Number of segments by a property of the samples."""
FEWEST = 10
"""Smaller segments, in samples, are left out."""


@dataclass(frozen=True)
class ClassNumbers:
    """Numbers about the recognition of one class.

    Attributes:
        label: Number of the class.
        samples: Number of samples of the class.
        predicted: How often it was predicted.
        recall: Share of its samples that were found; NaN if it has none.
        precision: Share of its predictions that are right; NaN if there are none.
        f1: F1 score.
        confidence: Mean confidence of its predictions; NaN if there are none.
    """

    label: int
    samples: int
    predicted: int
    recall: float
    precision: float
    f1: float
    confidence: float

    @property
    def gap(self) -> float:
        """Mean confidence minus precision: above 0 if over-confident."""
        return self.confidence - self.precision


@dataclass(frozen=True)
class Segment:
    """Some of the samples: those of a class, or with a property in some range.

    Attributes:
        name: `brightness below 41.2`.
        samples: Number of samples.
        error: Share of errors among them, or the mean squared error.
        confidence: Mean confidence among them; None for regression.
    """

    name: str
    samples: int
    error: float
    confidence: float | None


@dataclass(frozen=True)
class Abstention:
    """Samples that a network passes on if it answers only the most certain ones.

    Attributes:
        coverage: Share of the samples that it answers.
        passed: Samples that it passes on.
        passed_errors: Errors among these.
        answered: Samples that it answers.
        errors: Errors among these.
    """

    coverage: float
    passed: int
    passed_errors: int
    answered: int
    errors: int


@dataclass(frozen=True)
class Classified:
    """Predicted probabilities of classes, with the truth.

    Attributes:
        probabilities: (sample, class).
        targets: (sample,).
    """

    probabilities: Floats
    targets: Indices

    @cached_property
    def predicted(self) -> Indices:
        """The most probable class of each sample."""
        found: Indices = self.probabilities.argmax(axis=1)
        return found

    @cached_property
    def confidence(self) -> Floats:
        """The probability of the predicted class."""
        found: Floats = self.probabilities.max(axis=1)
        return found

    @cached_property
    def wrong(self) -> NDArray[np.bool_]:
        """Whether the predicted class is not the true one."""
        found: NDArray[np.bool_] = self.predicted != self.targets
        return found

    def confident_errors(self, most: int) -> Indices:
        """Return the errors with the highest confidence, the highest first."""
        errors = np.flatnonzero(self.wrong)
        return errors[np.argsort(-self.confidence[errors], kind="stable")][:most]

    def least_confident(self, most: int) -> Indices:
        """Return the samples with the lowest confidence, the lowest first."""
        return np.argsort(self.confidence, kind="stable")[:most]

    def abstentions(self, coverages: Sequence[float]) -> list[Abstention]:
        """Return the effect of passing on the least confident samples, at each coverage."""
        order, wrong = np.argsort(self.confidence, kind="stable"), self.wrong
        found = []
        for coverage in coverages:
            passed = round((1 - coverage) * len(order))
            first, rest = wrong[order[:passed]], wrong[order[passed:]]
            found.append(Abstention(coverage, passed, int(first.sum()), len(rest), int(rest.sum())))
        return found

    def confusion(self) -> NDArray[np.int64]:
        """Return how often each class was predicted for each true class, (true, predicted)."""
        classes = self.probabilities.shape[1]
        counts = np.bincount(self.targets * classes + self.predicted, minlength=classes * classes)
        return counts.reshape(classes, classes)

    def by_class(self) -> list[ClassNumbers]:
        """Return the numbers about each class."""
        matrix = self.confusion()
        found = []
        for label in range(len(matrix)):
            right, samples, predicted = matrix[label, label], matrix[label].sum(), matrix[:, label].sum()
            both = samples + predicted
            confidence = self.confidence[self.predicted == label]
            found.append(
                ClassNumbers(
                    label,
                    int(samples),
                    int(predicted),
                    float(right / samples) if samples else math.nan,
                    float(right / predicted) if predicted else math.nan,
                    float(2 * right / both) if both else math.nan,
                    float(confidence.mean()) if predicted else math.nan,
                )
            )
        return found

    def segment(self, name: str, rows: NDArray[np.bool_]) -> Segment:
        """Return the errors and the confidence among some samples."""
        return Segment(name, int(rows.sum()), float(self.wrong[rows].mean()), float(self.confidence[rows].mean()))

    def segments(self, name: str, values: Floats) -> list[Segment]:
        """Return the errors in each quarter of the samples by a property of theirs."""
        return [self.segment(text, rows) for text, rows in quarters(name, values)]


def quarters(name: str, values: Floats) -> list[tuple[str, NDArray[np.bool_]]]:
    """Cut samples into quarters by a property of theirs; empty if it hardly varies.

    Example:
        >>> [(text, int(rows.sum())) for text, rows in quarters("age", np.arange(40.0))][:2]
        [('age below 9.75', 10), ('age from 9.75 to 19.5', 10)]
    """
    edges = np.unique(np.quantile(values, np.linspace(0, 1, PARTS + 1)))
    if len(edges) < PARTS + 1:
        return []
    inner = edges[1:-1]
    place = np.searchsorted(inner, values, side="right")
    shown = [f"{edge:.3g}" for edge in inner]
    names = [
        f"{name} below {shown[0]}",
        *(f"{name} from {low} to {high}" for low, high in itertools.pairwise(shown)),
    ]
    names.append(f"{name} from {shown[-1]}")
    found = [(text, place == part) for part, text in enumerate(names)]
    return [(text, rows) for text, rows in found if rows.sum() >= FEWEST]


@dataclass(frozen=True)
class Regressed:
    """Predicted means and standard deviations of real values, with the truth; all (sample,)."""

    mean: Floats
    spread: Floats
    targets: Floats

    @cached_property
    def residuals(self) -> Floats:
        """The truth minus the prediction."""
        return self.targets - self.mean

    @cached_property
    def surprise(self) -> Floats:
        """Residuals in predicted standard deviations."""
        return self.residuals / np.maximum(self.spread, np.finfo(np.float64).tiny)

    def largest(self, most: int) -> Indices:
        """Return the samples whose residual is largest in predicted standard deviations."""
        return np.argsort(-np.abs(self.surprise), kind="stable")[:most]

    def segments(self, name: str, values: Floats) -> list[Segment]:
        """Return the mean squared error in each quarter of the samples by a property of theirs."""
        squared = self.residuals**2
        return [
            Segment(text, int(rows.sum()), float(squared[rows].mean()), None) for text, rows in quarters(name, values)
        ]
