"""Exponential moving averages of weights, which predict better than the weights of the last step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

WARM_UP = 10
"""The decay at step s is at most (1 + s) / (10 + s), so that the first, random weights are soon forgotten."""


class WeightAverage:
    """The moving average of some tensors that training changes in place.

    Attributes:
        decay: The share of the old average that an update keeps, once the average has warmed up.
        tensors: The tensors that are averaged: vectors of parameters, and BatchNorm's statistics.
        average: The average of each.

    Example:
        >>> weight = torch.tensor([0.0])
        >>> average = WeightAverage(0.9, [weight])
        >>> _ = weight.fill_(1.0)
        >>> average.update(step=0)
        >>> average.average
        [tensor([0.9000])]
        >>> with average.in_use():
        ...     print(weight)
        tensor([0.9000])
        >>> weight
        tensor([1.])
    """

    def __init__(self, decay: float, tensors: Sequence[Tensor]) -> None:
        self.decay, self.tensors = decay, list(tensors)
        self.average = [tensor.clone() for tensor in self.tensors]

    def decay_at(self, step: int) -> float:
        """Return the decay of the update after a step, counted from 0."""
        return min(self.decay, (1 + step) / (WARM_UP + step))

    def update(self, step: int) -> None:
        """Move the average towards the tensors as they are after a step."""
        torch._foreach_lerp_(self.average, self.tensors, 1 - self.decay_at(step))

    def load(self, average: Sequence[Tensor]) -> None:
        """Continue from an average that another process has reached."""
        for own, given in zip(self.average, average, strict=True):
            own.copy_(given)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the tensors their averages within the context, and what they were before after it."""
        before = [tensor.clone() for tensor in self.tensors]
        torch._foreach_copy_(self.tensors, self.average)
        try:
            yield
        finally:
            torch._foreach_copy_(self.tensors, before)
