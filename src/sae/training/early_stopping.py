"""Early stopping: the best epoch so far, and whether to go on.

Each stream of a method is judged alone, by its own negative log-likelihood on the validation split, perhaps after
temperature scaling. A member of a deep ensemble is therefore the same in ensembles of any size, also with early
stopping.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sae.core.predictive import aggregate
from sae.data.dataset import Split
from sae.measure.calibration import cross_calibrated
from sae.measure.metrics import measure_all, measure_scaled
from sae.methods import Method


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
        """Keep the weights of the streams that are better than before; a stream that has stopped stays as it is.

        Args:
            method: The method after this epoch.
            epoch: Its number, from 1.
            losses: What `stream_losses` returned.
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
        """Give the method the weights of its best epochs, and the temperature that it is shipped with."""
        for stream, best in enumerate(self.best):
            method.stream_module(stream).load_state_dict(best.state)
            method.progress = 1.0

    def _is_over(self, stream: int, epoch: int) -> bool:
        return 0 < self.patience <= epoch - self.best[stream].epoch


def stream_losses(method: Method, outputs: Tensor, split: Split, judged_by: str = "nll") -> list[float]:
    """Return the negative log-likelihood of every stream, with the exit weights that the method is shipped with.

    Args:
        method: The method; if it has several streams, each trains the member with its number.
        outputs: Raw outputs of all members on the split, (sample, member, out).
        split: The validation split.
        judged_by: `nll`, or `nll_scaled`: after temperature scaling, cross-validated on the split.
    """
    targets = torch.from_numpy(split.targets)
    if method.num_streams > 1:
        members = [(outputs[:, stream : stream + 1], torch.ones(1)) for stream in range(method.num_streams)]
    else:
        now, method.progress = method.progress, 1.0
        members = [(outputs, method.member_weights().cpu())]
        method.progress = now
    predictives = [aggregate(method.task, *member) for member in members]
    if judged_by == "nll":
        return [measure_all(predictive, targets)[judged_by] for predictive in predictives]
    return [measure_scaled(cross_calibrated(predictive, targets), targets)[judged_by] for predictive in predictives]


def _snapshot(method: Method, stream: int, epoch: int, nll: float) -> BestEpoch:
    state = method.stream_module(stream).state_dict()
    return BestEpoch(epoch, nll, {name: tensor.detach().clone() for name, tensor in state.items()})
