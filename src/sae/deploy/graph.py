"""The network that is exported, from samples as they come to what a user reads."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sae.backbones import MemberNetwork
from sae.core.predictive import Categorical, aggregate
from sae.core.task import Classification, DataSpec, Shape, Task
from sae.data.dataset import Normalisation
from sae.measure.uncertainty import disagreement, entropy

CLASS_OUTPUTS = ("probs", "entropy", "disagreement")
VALUE_OUTPUTS = ("mean", "variance", "entropy", "disagreement")


class SampleForm(Protocol):
    """All that a graph needs to know of the samples that it takes; a `Dataset` is one."""

    @property
    def spec(self) -> DataSpec:
        """Shape of a prepared sample, and the task."""

    @property
    def normalisation(self) -> Normalisation:
        """Applied to every sample."""

    @property
    def frame(self) -> int:
        """Black pixels on each side that new images need."""


class Preprocessing(nn.Module):
    """A black frame, then (x − mean) / std: the frame is black before it is normalised, as in training.

    Shape: (batch, *raw) in uint8 or float32 → (batch, *sample) in float32.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, normalisation: Normalisation, num_dimensions: int, frame: int = 0) -> None:
        super().__init__()
        shape = (-1, *[1] * (num_dimensions - 1))  # channels first, or features
        self.frame = frame
        self.register_buffer("shift", torch.tensor(normalisation.mean, dtype=torch.float32).view(shape))
        self.register_buffer("scale", torch.tensor(normalisation.std, dtype=torch.float32).view(shape).reciprocal())

    def forward(self, x: Tensor) -> Tensor:
        """What the network was trained on."""
        x = x.to(torch.float32)
        return ((F.pad(x, [self.frame] * 4) if self.frame else x) - self.shift) * self.scale


class Aggregation(nn.Module):
    """Member outputs → one answer and its uncertainty, by the definitions that evaluation uses.

    Shape: (batch, member, out) → `CLASS_OUTPUTS` or `VALUE_OUTPUTS`, (batch, class) or (batch,) each.
    """

    weights: Tensor

    def __init__(self, task: Task, weights: Tensor) -> None:
        super().__init__()
        self.task = task
        self.register_buffer("weights", weights.detach().clone())

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called."""
        return CLASS_OUTPUTS if isinstance(self.task, Classification) else VALUE_OUTPUTS

    def forward(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """In the order of `output_names`."""
        predictive = aggregate(self.task, outputs, self.weights)
        doubt = entropy(predictive), disagreement(self.task, outputs, self.weights)
        if isinstance(predictive, Categorical):
            return predictive.probs, *doubt
        return predictive.mean, predictive.variance, *doubt


class ShippedGraph(nn.Module):
    """Preprocessing, the folded network, aggregation.

    Args:
        network: Folded, in evaluation mode.
        dataset: Whose samples it takes.
    """

    def __init__(self, network: MemberNetwork, dataset: SampleForm) -> None:
        super().__init__()
        shape = dataset.spec.shape
        self.preprocessing = Preprocessing(dataset.normalisation, len(shape), dataset.frame)
        self.network = network
        self.aggregation = Aggregation(dataset.spec.task, network.weights)
        self.eval()

    def forward(self, samples: Tensor) -> tuple[Tensor, ...]:
        """(batch, *raw) → the outputs in the order of the aggregation's names."""
        outputs: tuple[Tensor, ...] = self.aggregation(self.network(self.preprocessing(samples)))
        return outputs


def raw_shape(dataset: SampleForm) -> Shape:
    """One sample as it comes: without the frame that reading added."""
    shape, frame = dataset.spec.shape, dataset.frame
    return shape if not frame else (shape[0], shape[1] - 2 * frame, shape[2] - 2 * frame)
