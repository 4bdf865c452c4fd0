"""The task of a data set, and the shape of its samples.

Settings use these types, so importing them must be quick: numpy is imported where targets are checked.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sae.core.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Classification:
    """Prediction of one of `num_classes` classes; a network has one logit for each."""

    num_classes: int

    @property
    def num_outputs(self) -> int:
        """Width of the network's output."""
        return self.num_classes

    def check_targets(self, targets: "NDArray[Any]", where: str) -> None:
        """Refuse labels that are not integers in [0, num_classes), and a single class."""
        import numpy as np

        if self.num_classes < 2:
            raise DataError(f"there must be at least 2 classes, got {self.num_classes} in {where}")
        if not np.issubdtype(targets.dtype, np.integer):
            raise DataError(f"labels must be integers in [0, {self.num_classes - 1}], got {targets.dtype} in {where}")
        wrong = np.flatnonzero((targets < 0) | (targets >= self.num_classes))
        if wrong.size:
            first = int(wrong[0])
            raise DataError(
                f"labels must be in [0, {self.num_classes - 1}], got {targets[first]} at index {first} of {where}"
            )


@dataclass(frozen=True)
class WeightedClassification(Classification):
    """A classification whose training loss weights the classes; predictions are not affected.

    Attributes:
        class_weights: The factor of each class's negative log-likelihood.
    """

    class_weights: tuple[float, ...]


@dataclass(frozen=True)
class Ordinal(Classification):
    """Prediction of one of several classes in an order, such as grades.

    A network has a logit for each boundary between two neighbours: the cumulative logits of McCullagh (1980).
    """

    @property
    def num_outputs(self) -> int:
        """Width of the network's output."""
        return self.num_classes - 1


@dataclass(frozen=True)
class MultiLabel(Classification):
    """Prediction of several labels, each of which holds or not; a network has one logit for each.

    Every label is a classification of its own, with the classes 0 and 1: targets are (sample, label).
    """

    num_classes: int = 2
    num_labels: int = 1

    @property
    def num_outputs(self) -> int:
        """Width of the network's output."""
        return self.num_labels


Moment = float | tuple[float, ...]
"""A number, or one for each target."""


@dataclass(frozen=True)
class Regression:
    """Prediction of a real number; a network has two outputs, its mean and log-variance.

    Networks learn the standardised target, `(y - mean) / std`; predictions come back in the
    original units. A data set whose targets are already small keeps mean 0 and std 1. Of several targets, (sample,
    target), each has its own mean and std, and two outputs.
    """

    mean: Moment = 0.0
    std: Moment = 1.0

    def __post_init__(self) -> None:
        for mean, std in zip(as_tuple(self.mean), as_tuple(self.std), strict=True):
            if not (math.isfinite(mean) and math.isfinite(std) and std > 0):
                raise DataError(f"targets must be finite and vary, got mean {mean} and standard deviation {std}")

    @property
    def num_targets(self) -> int | None:
        """The number of targets; None if targets are single numbers."""
        return len(self.mean) if isinstance(self.mean, tuple) else None

    @property
    def num_outputs(self) -> int:
        """Width of the network's output: mean and log-variance of each target."""
        return 2 * (self.num_targets or 1)

    def check_targets(self, targets: "NDArray[Any]", where: str) -> None:
        """Refuse targets that are not finite numbers."""
        import numpy as np

        wrong = np.flatnonzero(~np.isfinite(targets.astype(np.float64)))
        if wrong.size:
            first = int(wrong[0])
            raise DataError(f"targets must be finite, got {targets[first]} at index {first} of {where}")


@dataclass(frozen=True)
class Counts(Regression):
    """Prediction of how often something happens: whole numbers from 0.

    A network has two outputs, the logarithms of the mean and of the dispersion of a negative binomial distribution, so
    no mean is negative. Networks learn `y / std`, where std is the mean of the training targets.
    """

    def check_targets(self, targets: "NDArray[Any]", where: str) -> None:
        """Refuse targets that are not whole numbers from 0."""
        super().check_targets(targets, where)
        wrong = (targets < 0) | (targets % 1 != 0)
        if wrong.any():
            first = int(wrong.argmax())
            raise DataError(
                f"counts must be whole numbers from 0, got {targets[first]:g} at index {first} of {where}: use "
                f"--task regression for other numbers"
            )


Task = Classification | Regression


def num_targets(task: Task) -> int | None:
    """Return the number of targets of a sample; None if a target is a single number."""
    return task.num_labels if isinstance(task, MultiLabel) else getattr(task, "num_targets", None)


def as_tuple(moment: Moment) -> tuple[float, ...]:
    """Return one number for each target."""
    return moment if isinstance(moment, tuple) else (moment,)


Shape = tuple[int, ...]
"""One sample without its batch: (channel, height, width) of an image, (channel, length) of a signal, or (feature,) of
a table row."""


class SampleKind(StrEnum):
    """The kind of samples of a data set, by the number of their dimensions."""

    TABLE = "table"  # rows, (feature,)
    SIGNALS = "signals"  # (channel, length)
    IMAGES = "images"  # (channel, height, width)

    @classmethod
    def of(cls, shape: Shape) -> "SampleKind":
        """Return the kind of a sample of this shape."""
        return list(cls)[len(shape) - 1]

    @property
    def phrase(self) -> str:
        """The kind as a noun phrase, such as `a set of images`."""
        return "a table" if self is SampleKind.TABLE else f"a set of {self}"


@dataclass(frozen=True)
class DataSpec:
    """The facts about a data set that a network needs."""

    shape: Shape
    task: Task

    @property
    def kind(self) -> SampleKind:
        """The kind of its samples."""
        return SampleKind.of(self.shape)
