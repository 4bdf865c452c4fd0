"""What a shipped model says of samples."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class ClassPrediction:
    """Of a classification.

    Attributes:
        labels: The most probable class of each sample, (batch,), int64.
        probs: (batch, class).
        entropy: How uncertain the prediction is, in nats, (batch,).
        disagreement: How far the members disagree, in nats, (batch,).
        class_names: In the order of `probs`.
        exits: The depth of the exit that each sample left at, counted from 1, (batch,); None of a plain graph.
    """

    labels: Array
    probs: Array
    entropy: Array
    disagreement: Array
    class_names: tuple[str, ...]
    exits: Array | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> list[str]:
        """The name of the most probable class of each sample."""
        return [self.class_names[label] for label in self.labels]

    @property
    def confidence(self) -> Array:
        """The probability of the most probable class, (batch,)."""
        highest: Array = self.probs.max(axis=1, initial=0.0)
        return highest

    def abstains(self, threshold: float) -> Array:
        """Which samples to pass to a human, (batch,): those whose top probability is below the threshold."""
        below: Array = self.confidence < threshold
        return below


@dataclass(frozen=True)
class ValuePrediction:
    """Of a regression, in the units of the data.

    Attributes:
        mean: (batch,).
        variance: (batch,).
        entropy: How uncertain the prediction is, in nats, (batch,).
        disagreement: The variance of the members' means, (batch,).
    """

    mean: Array
    variance: Array
    entropy: Array
    disagreement: Array

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def std(self) -> Array:
        """(batch,)."""
        root: Array = np.sqrt(self.variance)
        return root


Prediction = ClassPrediction | ValuePrediction
