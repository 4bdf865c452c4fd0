"""Weights that a run keeps: those of its best epoch, with early stopping, and moving averages.

Each stream of a method is judged alone, by its own negative log-likelihood on the validation split, perhaps after
temperature scaling. A member of a deep ensemble is therefore the same in ensembles of any size, also with early
stopping. An exponential moving average of the weights predicts better than the weights of the last step.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sae.core.predictive import aggregate
from sae.data.dataset import Split
from sae.measure.calibration import cross_calibrated
from sae.measure.metrics import weighted_nll
from sae.methods import Method

WARM_UP = 10
"""The decay at step s is at most (1 + s) / (10 + s), so that the first, random weights are soon forgotten."""


@dataclass(frozen=True)
class BestEpoch:
    """The best epoch of one stream so far.

    Attributes:
        epoch: Its number, from 1.
        nll: Negative log-likelihood on the validation split, as `stream_losses` measures it.
        state: The weights of the stream's module after this epoch.
    """

    epoch: int
    nll: float
    state: dict[str, Tensor]


@dataclass
class EarlyStopping:
    """The best epoch of every stream.

    Attributes:
        patience: Epochs without a better one after which a stream stops; 0 to never stop.
        best: The best epoch by stream; empty before the first.
    """

    patience: int
    best: list[BestEpoch] = field(default_factory=list)

    def update(self, method: Method, epoch: int, losses: Sequence[float]) -> None:
        """Keep the weights of the streams that are better than before; a stream that has stopped keeps its old ones.

        Args:
            method: The method after this epoch.
            epoch: Its number, from 1.
            losses: The result of `stream_losses`.
        """
        if not self.best:
            self.best = [_snapshot(method, stream, epoch, nll) for stream, nll in enumerate(losses)]
            return
        for stream, nll in enumerate(losses):
            if not self._is_over(stream, epoch - 1) and nll < self.best[stream].nll:
                self.best[stream] = _snapshot(method, stream, epoch, nll)

    def has_stopped(self, epoch: int) -> bool:
        """Return whether every stream has stopped after this epoch."""
        return bool(self.best) and all(self._is_over(stream, epoch) for stream in range(len(self.best)))

    def restore(self, method: Method) -> None:
        """Give the method the weights of its best epochs, and the progress at which it is shipped."""
        for stream, best in enumerate(self.best):
            method.stream_module(stream).load_state_dict(best.state)
            method.progress = 1.0

    def _is_over(self, stream: int, epoch: int) -> bool:
        return 0 < self.patience <= epoch - self.best[stream].epoch


def stream_losses(
    method: Method, outputs: Tensor, split: Split, judged_by: str = "nll", weights: Tensor | None = None
) -> list[float]:
    """Return the negative log-likelihood of every stream, with the exit weights at the end of training.

    Args:
        method: The method; if it has several streams, each trains the member with its number.
        outputs: Raw outputs of all members on the split, (sample, member, out).
        split: The validation split.
        judged_by: `nll`, or `nll_scaled`: after temperature scaling, cross-validated on the split.
        weights: How much each sample counts, (sample,); None if all count the same.
    """
    targets = torch.from_numpy(split.targets)
    if method.num_streams > 1:
        members = [(outputs[:, stream : stream + 1], torch.ones(1)) for stream in range(method.num_streams)]
    else:
        now, method.progress = method.progress, 1.0
        members = [(outputs, method.member_weights().cpu())]
        method.progress = now
    predictives = [aggregate(method.task, *member) for member in members]
    if judged_by == "nll_scaled":
        predictives = [cross_calibrated(predictive, targets) for predictive in predictives]
    return [weighted_nll(predictive, targets, weights) for predictive in predictives]


def _snapshot(method: Method, stream: int, epoch: int, nll: float) -> BestEpoch:
    state = method.stream_module(stream).state_dict()
    return BestEpoch(epoch, nll, {name: tensor.detach().clone() for name, tensor in state.items()})


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
        """Move the average towards the tensors after a step."""
        torch._foreach_lerp_(self.average, self.tensors, 1 - self.decay_at(step))

    def load(self, average: Sequence[Tensor]) -> None:
        """Continue from an average that another process or a checkpoint has reached."""
        for own, given in zip(self.average, average, strict=True):
            own.copy_(given)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the tensors their averages within the context, and restore them afterwards."""
        before = [tensor.clone() for tensor in self.tensors]
        torch._foreach_copy_(self.tensors, self.average)
        try:
            yield
        finally:
            torch._foreach_copy_(self.tensors, before)
