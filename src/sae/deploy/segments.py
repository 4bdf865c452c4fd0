"""The shipped network cut behind each used exit: segments in torch and as ONNX files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sae.backbones import MemberNetwork
from sae.backbones.base import State, features_of
from sae.core.errors import ConfigError
from sae.core.parts import number_in
from sae.core.task import Classification, Shape
from sae.data.dataset import Dataset
from sae.deploy.evaluation import check_segments
from sae.deploy.graph import Preprocessing, example_input, to_onnx
from sae.deploy.session import NEVER, NEXT, SHARE, SegmentSessions, Session, open_segments
from sae.ensemble.pruning import PrunedNetwork
from sae.measure.cost import measure_shipped_cost


class Segment(nn.Module):
    """The layers up to a used exit, and that exit's part of the prediction.

    Shape: (batch, *features) → features for the next segment, unless it is the last, and a share
    (batch, class + 1): the weighted sums of the members' probabilities and of their entropies.
    """

    weights: Tensor

    def __init__(self, layers: Sequence[nn.Module], exit_: nn.Module, weights: Tensor, *, is_last: bool) -> None:
        super().__init__()
        self.layers, self.exit, self.is_last = nn.Sequential(*layers), exit_, is_last
        self.register_buffer("weights", weights.detach().clone())

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return (SHARE,) if self.is_last else (NEXT, SHARE)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs in the order of `output_names`."""
        state = self.layers(x)
        log_probs = self.exit(features_of(state)).log_softmax(dim=-1)  # (batch, member, class)
        probs = log_probs.exp()
        entropies = -(probs * log_probs).sum(dim=-1, keepdim=True)
        share = (torch.cat([probs, entropies], dim=-1) * self.weights[:, None]).sum(dim=1)
        return (share,) if self.is_last else (packed(state), share)


def packed(state: State) -> Tensor:
    """Return the state behind a stage as one tensor: features unchanged, several tensors flattened and joined."""
    return state if isinstance(state, Tensor) else torch.cat([part.flatten(1) for part in state], dim=1)


class Unpacked(nn.Module):
    """The inverse of `packed`: (batch, number) → one tensor of each shape."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        super().__init__()
        self.shapes = list(shapes)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors."""
        parts = x.split([math.prod(shape) for shape in self.shapes], dim=1)
        return tuple(part.unflatten(1, shape) for part, shape in zip(parts, self.shapes, strict=True))


class SegmentedNetwork(nn.Module):
    """All segments in torch, on any device: the same as the segment files, without onnxruntime.

    Attributes:
        exits: The depth of each segment's exit, counted from 1.
        seen: Total weight of the members up to each exit.
        flops: Shipped FLOPs of a sample that leaves after each segment.
    """

    def __init__(self, network: MemberNetwork, dataset: Dataset) -> None:
        super().__init__()
        check_adaptive(network, dataset)
        assert isinstance(network, PrunedNetwork)
        folded = network.folded(dataset.spec.shape)
        used = [int(key) for key in folded.exits]
        preprocessing = Preprocessing(dataset.normalisation, len(dataset.spec.shape), dataset.frame)
        self.segments = nn.ModuleList()
        start, first = 0, [preprocessing, folded.stem]
        states = _states(folded, dataset.spec.shape)
        for j in used:
            layers = [*first, *folded.stages[start : j + 1]]
            weights = folded.weights[[index for index, (_, at) in enumerate(folded.members) if at == j]]
            self.segments.append(Segment(layers, folded.exits[str(j)], weights, is_last=j == used[-1]))
            start = j + 1
            first = [Unpacked([tuple(part.shape[1:]) for part in states[j]])] if isinstance(states[j], tuple) else []
        self.exits = tuple(j + 1 for j in used)
        shares = torch.stack([segment.weights.sum() for segment in self._segments()])
        self.seen: tuple[float, ...] = tuple(shares.double().cumsum(0).tolist())
        parts = measure_shipped_cost(network, dataset.spec.shape).by_part
        self.flops = tuple(
            sum(part.flops for name, part in parts.items() if _is_computed(name, number)) for number in self.exits
        )
        self.eval()

    def _segments(self) -> list[Segment]:
        return [segment for segment in self.segments if isinstance(segment, Segment)]

    def forward(self, samples: Tensor, threshold: float = NEVER) -> tuple[Tensor, Tensor]:
        """Compute (batch, *raw) → probabilities (batch, class) and the segment after which each sample left, (batch,).

        Args:
            samples: Raw samples.
            threshold: The confidence from which a sample leaves.
        """
        here, carried, x = torch.arange(len(samples), device=samples.device), None, samples
        probs = samples.new_zeros((len(samples), self._num_classes()), dtype=torch.float32)
        left = torch.full((len(samples),), len(self.segments) - 1, device=samples.device)
        for number, segment in enumerate(self._segments()):
            if not len(here):
                break
            *features, share = segment(x)
            carried = share if carried is None else carried + share
            running = carried[:, :-1] / self.seen[number]
            if segment.is_last:
                probs[here] = running
                break
            leaves = running.amax(dim=1).clamp(max=1.0) >= threshold
            probs[here[leaves]], left[here[leaves]] = running[leaves], number
            here, carried, x = here[~leaves], carried[~leaves], features[0][~leaves]
        return probs, left

    def to_files(self, dataset: Dataset) -> list[bytes]:
        """Export each segment as an ONNX file."""
        x, name = example_input(dataset)
        contents = []
        for segment in self._segments():
            contents.append(to_onnx(segment, x, name, segment.output_names))
            with torch.no_grad():
                x, name = segment(x)[0].contiguous(), "features"
        return contents

    def _num_classes(self) -> int:
        exit_ = self._segments()[0].exit
        return int(exit_.num_outputs)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Segments:
    """Segments that were checked against the plain graph.

    Attributes:
        network: The segments in torch.
        contents: The file of each segment.
        sessions: The files in onnxruntime.
        largest_difference: Largest difference from the plain graph.
    """

    network: SegmentedNetwork
    contents: list[bytes]
    sessions: SegmentSessions
    largest_difference: float

    @property
    def flops(self) -> NDArray[np.float64]:
        """FLOPs of a sample that leaves after each segment, as a share of the plain graph's, (segment,)."""
        shares: NDArray[np.float64] = np.array(self.network.flops) / self.network.flops[-1]
        return shares


def cut(network: MemberNetwork, dataset: Dataset, plain: Session) -> Segments:
    """Cut a pruned network into segments, and check that their predictions agree with the plain graph's."""
    segmented = SegmentedNetwork(network, dataset)
    contents = segmented.to_files(dataset)
    sessions = open_segments(contents, segmented.seen)
    return Segments(segmented, contents, sessions, check_segments(sessions, plain, dataset))


def _states(network: PrunedNetwork, shape: Shape) -> list[State]:
    """Return the output of each stage of a folded network for a sample."""
    states = []
    with torch.no_grad():
        state = network.eval().stem(torch.zeros(1, *shape))
        for stage in network.stages:
            state = stage(state)
            states.append(state)
    return states


def check_adaptive(network: MemberNetwork, dataset: Dataset) -> None:
    """Refuse a network that cannot have adaptive exits."""
    if type(dataset.spec.task) is not Classification:
        raise ConfigError(
            "adaptive exits are for classification (a sample leaves once its top probability is high enough), but "
            "this run predicts values, several labels or classes in an order: export it without --adaptive"
        )
    if not isinstance(network, PrunedNetwork):
        raise ConfigError(
            "adaptive exits need a network with several exits, but this method has one, the last: export it without "
            "--adaptive, or train method sae"
        )
    if network.uncut_reason is not None:
        raise ConfigError(
            "adaptive exits need a network that can be cut between its exits, but this one stays in one piece: "
            f"{network.uncut_reason}; export it without --adaptive"
        )
    if len(network.exits) < 2:
        raise ConfigError(
            f"adaptive exits need at least 2 exits in use, but this network uses only exit "
            f"{int(next(iter(network.exits))) + 1}: raise --eval-exits, or export it without --adaptive"
        )


def _is_computed(part: str, exit_number: int) -> bool:
    """Return whether a part of the network is computed for a sample that leaves at this exit."""
    numbers = (number_in(part, "stage"), number_in(part, "exit"))
    return all(number is None or number <= exit_number for number in numbers)
