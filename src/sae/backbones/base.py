"""A network in stages: a stem, then D stages, each of which declares the shape of its features."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import torch
from torch import Tensor, nn

from sae.core.task import Shape


class FeatureKind(StrEnum):
    """How a stage lays out its features."""

    VECTOR = "vector"  # (feature,)
    MAP = "map"  # (feature, height, width)
    TOKENS = "tokens"  # (token, feature)


@dataclass(frozen=True)
class StageInfo:
    """What comes out of a stage, for one sample."""

    kind: FeatureKind
    shape: Shape

    @property
    def num_features(self) -> int:
        """Features per position: F in the paper's cost formulas."""
        return self.shape[-1] if self.kind is FeatureKind.TOKENS else self.shape[0]


class Backbone(nn.Module):
    """A stem and stages; knows nothing of exits, methods or training.

    Example:
        >>> import torch
        >>> vector = StageInfo(FeatureKind.VECTOR, (4,))
        >>> backbone = Backbone(nn.Linear(2, 4), [nn.ReLU(), nn.Linear(4, 4)], [vector, vector])
        >>> [tuple(feature.shape) for feature in backbone(torch.zeros(3, 2))]
        [(3, 4), (3, 4)]
    """

    def __init__(self, stem: nn.Module, stages: Iterable[nn.Module], stage_info: Iterable[StageInfo]) -> None:
        super().__init__()
        self.stem = stem
        self.stages = nn.ModuleList(stages)
        self.stage_info = tuple(stage_info)

    @property
    def depth(self) -> int:
        """D, the number of stages and so of possible exits."""
        return len(self.stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """The features of every stage, shallowest first, each (batch, *stage_info.shape)."""
        x = self.stem(x)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features

    def readout(self) -> nn.Module:
        """A new module that turns the last stage's features into a vector (batch, feature)."""
        last = self.stage_info[-1]
        if last.kind is FeatureKind.VECTOR:
            return nn.Identity()
        if last.kind is FeatureKind.MAP:
            return GlobalAveragePool()
        return nn.Sequential(nn.LayerNorm(last.num_features), TokenMean())


class ChannelsLast(nn.Module):
    """Lays images out with their channels last in memory; shapes stay as they are.

    Convolutions, pooling and BatchNorm on the CPU then take about two thirds of the time.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, height, width), the same numbers."""
        return x.contiguous(memory_format=torch.channels_last)


class GlobalAveragePool(nn.Module):
    """(batch, feature, height, width) → (batch, feature)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over positions; features come last, so that the gradient too is laid out channels last."""
        return x.permute(0, 2, 3, 1).flatten(1, 2).mean(dim=1)


class TokenMean(nn.Module):
    """(batch, token, feature) → (batch, feature)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over all tokens, class tokens included."""
        return x.mean(dim=1)


class PlainNetwork(nn.Module):
    """A backbone with one head behind its last stage: the network everybody trains.

    Shape: (batch, *sample) → (batch, out).
    """

    def __init__(self, backbone: Backbone, num_outputs: int) -> None:
        super().__init__()
        self.backbone = backbone
        head = nn.Linear(backbone.stage_info[-1].num_features, num_outputs)
        self.exit = nn.Sequential(backbone.readout(), head)

    def forward(self, x: Tensor) -> Tensor:
        """Raw outputs, (batch, out)."""
        output: Tensor = self.exit(self.backbone(x)[-1])
        return output

    def parts(self) -> dict[str, nn.Module]:
        """What its cost is told apart by."""
        return named_parts(self.backbone.stem, self.backbone.stages, {self.backbone.depth: self.exit})


class MemberNetwork(nn.Module, ABC):
    """A network that predicts and nothing else; cost, latency and export are taken of it.

    Shape: (batch, *sample) → (batch, member, out).

    Attributes:
        weights: Member weights, (member,), summing to 1.
    """

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    @abstractmethod
    def parts(self) -> dict[str, nn.Module]:
        """What its cost is told apart by: modules that share nothing, by name."""

    def folded(self, shape: Shape) -> Self:
        """A new network to ship: it predicts the same, sample by sample, and draws nothing.

        A network that joins inputs, or draws, says here what becomes of that where every input
        is the same sample and nothing may be drawn.

        Args:
            shape: One sample.
        """
        del shape
        return copy.deepcopy(self)


def named_parts(stem: nn.Module, stages: Iterable[nn.Module], exits: Mapping[int, nn.Module]) -> dict[str, nn.Module]:
    """stem, stage_1 …, and exit_j behind the j-th stage, counted from 1 as in the paper."""
    numbered = {f"stage_{number}": stage for number, stage in enumerate(stages, start=1)}
    return {"stem": stem, **numbered, **{f"exit_{number}": module for number, module in exits.items()}}
