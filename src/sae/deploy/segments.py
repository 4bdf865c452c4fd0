"""The shipped network cut behind each used exit: modules that become stages, and the same run in torch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork
from sae.core.errors import ConfigError
from sae.core.task import Classification
from sae.data.dataset import Array, Dataset
from sae.deploy.evaluation import check_stages
from sae.deploy.graph import Preprocessing, raw_shape, to_onnx
from sae.deploy.session import NEVER, NEXT, SHARE, Session, Staged
from sae.ensemble.pruning import PrunedNetwork
from sae.measure.cost import measure_shipped_cost


class Segment(nn.Module):
    """Layers up to a used exit, and that exit's part of the answer.

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
        """What the outputs are called."""
        return (SHARE,) if self.is_last else (NEXT, SHARE)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """In the order of `output_names`."""
        features = self.layers(x)
        log_probs = self.exit(features).log_softmax(dim=-1)  # (batch, member, class)
        probs = log_probs.exp()
        entropies = -(probs * log_probs).sum(dim=-1, keepdim=True)
        share = (torch.cat([probs, entropies], dim=-1) * self.weights[:, None]).sum(dim=1)
        return (share,) if self.is_last else (features, share)


class StagedNetwork(nn.Module):
    """Segments in torch, on any device: what the staged graphs do, without onnxruntime.

    Attributes:
        exits: The depth of each segment's exit, counted from 1.
        seen: The weight of all members up to each exit.
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
        start = 0
        for j in used:
            layers = [*([preprocessing, folded.stem] if not start else []), *folded.stages[start : j + 1]]
            weights = folded.weights[[index for index, (_, at) in enumerate(folded.members) if at == j]]
            self.segments.append(Segment(layers, folded.exits[str(j)], weights, is_last=j == used[-1]))
            start = j + 1
        self.exits = tuple(j + 1 for j in used)
        shares = torch.stack([segment.weights.sum() for segment in self._segments()])
        self.seen: tuple[float, ...] = tuple(shares.double().cumsum(0).tolist())
        parts = measure_shipped_cost(network, dataset.spec.shape).by_part
        self.flops = tuple(
            sum(part.flops for name, part in parts.items() if _belongs(name, number)) for number in self.exits
        )
        self.eval()

    def _segments(self) -> list[Segment]:
        return [segment for segment in self.segments if isinstance(segment, Segment)]

    def forward(self, samples: Tensor, threshold: float = NEVER) -> tuple[Tensor, Tensor]:
        """(batch, *raw) → probabilities (batch, class) and the stage after which each sample left, (batch,)."""
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

    def to_stages(self, dataset: Dataset) -> list[bytes]:
        """The ONNX file of each segment."""
        is_image = len(dataset.spec.shape) == 3
        x = torch.zeros((2, *raw_shape(dataset)), dtype=torch.uint8 if is_image else torch.float32)
        name, contents = "pixels" if is_image else "features", []
        for segment in self._segments():
            contents.append(to_onnx(segment, x, name, segment.output_names))
            with torch.no_grad():
                x, name = segment(x)[0].contiguous(), "features"
        return contents

    def _num_classes(self) -> int:
        exit_ = self._segments()[0].exit
        return int(exit_.num_outputs)  # type: ignore[arg-type]


def staged_sessions(contents: Sequence[bytes], seen: Sequence[float], threads: int = 1) -> Staged:
    """The stages in onnxruntime; nobody leaves until a threshold is set."""
    return Staged([Session(content, threads) for content in contents], seen)


def check_adaptive(network: MemberNetwork, dataset: Dataset) -> None:
    """Refuse what has nothing to adapt."""
    if not isinstance(dataset.spec.task, Classification):
        raise ConfigError(
            "adaptive exits are for classification: a sample leaves once its top probability is high enough, "
            "however this run predicts values: export it without --adaptive"
        )
    if not isinstance(network, PrunedNetwork):
        raise ConfigError(
            "adaptive exits need a network with several exits, however this method has one, the last: export it "
            "without --adaptive, or train method sae"
        )
    if len(network.exits) < 2:
        raise ConfigError(
            f"adaptive exits need at least 2 exits in use, however this network uses exit "
            f"{int(next(iter(network.exits))) + 1} alone, so that there is nothing to adapt: raise --eval-exits, or "
            f"export it without --adaptive"
        )


def _belongs(part: str, exit_number: int) -> bool:
    """Whether a part of the network is computed for a sample that leaves at this exit."""
    number = part.partition("_")[2]
    return not number or int(number) <= exit_number


@dataclass(frozen=True)
class Stages:
    """Stages that were checked against the plain graph.

    Attributes:
        network: The same in torch.
        contents: The file of each stage.
        staged: Those in onnxruntime.
        largest_difference: To the plain graph.
    """

    network: StagedNetwork
    contents: list[bytes]
    staged: Staged
    largest_difference: float

    @property
    def flops(self) -> Array:
        """Of a sample that leaves after each stage, as a share of the plain graph's, (stage,)."""
        shares: Array = np.array(self.network.flops) / self.network.flops[-1]
        return shares


def cut(network: MemberNetwork, dataset: Dataset, plain: Session) -> Stages:
    """The stages of a pruned network; refused unless they say what the plain graph says."""
    segments = StagedNetwork(network, dataset)
    contents = segments.to_stages(dataset)
    staged = staged_sessions(contents, segments.seen)
    return Stages(segments, contents, staged, check_stages(staged, plain, dataset))
