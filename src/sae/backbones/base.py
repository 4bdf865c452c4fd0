"""Backbones: networks with a stem and D stages that declare the shape of their features."""

import copy
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeVar

import torch
from torch import Tensor, nn

from sae.core.parts import STEM, exit_name, stage_name
from sae.core.task import Shape


class FeatureKind(StrEnum):
    """The layout of a stage's features."""

    VECTOR = "vector"  # (feature,)
    MAP = "map"  # (feature, height, width)
    SIGNAL = "signal"  # (feature, length)
    TOKENS = "tokens"  # (token, feature), or (row, column, feature)
    VOLUME = "volume"  # (feature, depth, height, width)


@dataclass(frozen=True)
class StageInfo:
    """The features that a stage returns for one sample.

    Attributes:
        kind: Their layout.
        shape: Their shape.
        class_tokens: The first tokens, if exits read these alone; 0 if they read all.
        is_pooled_first: Whether early exits average a map before they widen it: for narrow stages before a wide last
            one, where a convolution at every position would cost more than the stages.
    """

    kind: FeatureKind
    shape: Shape
    class_tokens: int = 0
    is_pooled_first: bool = False

    @property
    def num_features(self) -> int:
        """Features per position: F in the paper's cost formulas."""
        return self.shape[-1] if self.kind is FeatureKind.TOKENS else self.shape[0]


State = Tensor | tuple[Tensor, ...]
"""The output of a stage: its features, or a tuple of its features and of other values that later stages need."""


def features_of(state: State) -> Tensor:
    """Return the features in the output of a stage."""
    return state[0] if isinstance(state, tuple) else state


class Backbone(nn.Module):
    """A stem and stages, without exits, methods or training.

    Attributes:
        stage_info: The features of each stage.
        uncut_reason: Why the stages are one piece, so that no early exit saves work; None if they can be cut.

    Example:
        >>> import torch
        >>> vector = StageInfo(FeatureKind.VECTOR, (4,))
        >>> backbone = Backbone(nn.Linear(2, 4), [nn.ReLU(), nn.Linear(4, 4)], [vector, vector])
        >>> [tuple(feature.shape) for feature in backbone(torch.zeros(3, 2))]
        [(3, 4), (3, 4)]
    """

    uncut_reason: str | None = None

    def __init__(self, stem: nn.Module, stages: Iterable[nn.Module], stage_info: Iterable[StageInfo]) -> None:
        super().__init__()
        self.stem = stem
        self.stages = nn.ModuleList(stages)
        self.stage_info = tuple(stage_info)

    @property
    def depth(self) -> int:
        """D, the number of stages and therefore of possible exits."""
        return len(self.stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the features of every stage, shallowest first, each (batch, *stage_info.shape)."""
        state = self.stem(x)
        features = []
        for stage in self.stages:
            state = stage(state)
            features.append(features_of(state))
        return features

    def up_to(self, depth: int) -> tuple[nn.Module, list[nn.Module]]:
        """Return copies of the stem and of the first stages, which compute nothing for the others."""
        return copy_of(self.stem), [copy_of(stage) for stage in self.stages[:depth]]

    def readout(self) -> nn.Module:
        """Return a new module that turns the features of the last stage into a vector (batch, feature)."""
        last = self.stage_info[-1]
        if last.kind is FeatureKind.VECTOR:
            return nn.Identity()
        if last.kind is FeatureKind.MAP:
            return GlobalAveragePool()
        if last.kind is FeatureKind.SIGNAL:
            return TimeMean()
        if last.kind is FeatureKind.VOLUME:
            return VolumeMean()
        return nn.Sequential(*tokens_read(last), nn.LayerNorm(last.num_features), TokenMean())


Copied = TypeVar("Copied", bound=nn.Module)


def copy_of(module: Copied) -> Copied:
    """Return a deep copy, in half the time of `copy.deepcopy`, which copies every part's empty lists of hooks.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> torch.equal(copy_of(layer).weight, layer.weight), copy_of(layer).weight is layer.weight
        (True, False)
    """
    values = (value for part in module.modules() for value in vars(part).values())
    memo = {id(value): type(value)() for value in values if type(value) in (dict, OrderedDict, set) and not value}
    return copy.deepcopy(module, memo)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode within the context; afterwards restore the mode of each part."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, is_training in modes:
            part.training = is_training


class ChannelsLast(nn.Module):
    """A change of memory layout to channels last; shapes stay the same.

    Convolutions, pooling and BatchNorm on the CPU then take about two thirds of the time.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the same numbers in the same shape, (batch, channel, height, width)."""
        return x.contiguous(memory_format=torch.channels_last)


class GlobalAveragePool(nn.Module):
    """(batch, feature, height, width) → (batch, feature)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over positions, with features last, so that the gradient is laid out channels last too."""
        return x.permute(0, 2, 3, 1).flatten(1, 2).mean(dim=1)


class TimeMean(nn.Module):
    """(batch, feature, length) → (batch, feature)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over time."""
        return x.mean(dim=2)


class VolumeMean(nn.Module):
    """(batch, feature, depth, height, width) → (batch, feature)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over positions."""
        return x.flatten(2).mean(dim=2)


class TokenMean(nn.Module):
    """(batch, token, feature) → (batch, feature)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over all tokens, including class tokens."""
        return x.mean(dim=1)


class ClassTokens(nn.Module):
    """(batch, token, feature) → (batch, class token, feature)."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        """Keep the first tokens, which are the class tokens."""
        return x[:, : self.count]


def tokens_read(info: StageInfo) -> list[nn.Module]:
    """Return the layers that select the tokens an exit reads: none if it reads all tokens of a sequence.

    They come first in an exit: the layers behind them treat each token alone, so the others need not be computed.
    """
    in_a_row: list[nn.Module] = [nn.Flatten(1, -2)] if len(info.shape) > 2 else []
    return [*in_a_row, *([ClassTokens(info.class_tokens)] if info.class_tokens else [])]


class PlainNetwork(nn.Module):
    """A backbone with one head behind its last stage: a standard network.

    Shape: (batch, *sample) → (batch, out).
    """

    def __init__(self, backbone: Backbone, num_outputs: int) -> None:
        super().__init__()
        self.backbone = backbone
        head = nn.Linear(backbone.stage_info[-1].num_features, num_outputs)
        self.exit = nn.Sequential(backbone.readout(), head)

    def forward(self, x: Tensor) -> Tensor:
        """Return raw outputs, (batch, out)."""
        output: Tensor = self.exit(self.backbone(x)[-1])
        return output

    def parts(self) -> dict[str, nn.Module]:
        """Return the modules whose cost is listed separately, by name."""
        return named_parts(self.backbone.stem, self.backbone.stages, {self.backbone.depth: self.exit})


class MemberNetwork(nn.Module, ABC):
    """A network that only predicts; cost, latency and export all use it.

    Shape: (batch, *sample) → (batch, member, out).

    Attributes:
        weights: Member weights, (member,), summing to 1.
        num_inputs: How many copies of a sample the stem takes.
        uncut_reason: Why the network is one piece, so that early exits save no work; None if it can be cut.
    """

    weights: Tensor
    num_inputs: int = 1
    uncut_reason: str | None = None

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    @abstractmethod
    def parts(self) -> dict[str, nn.Module]:
        """Return the modules whose cost is listed separately, by name; shared parameters count with the first."""

    @property
    def num_passes(self) -> int:
        """How often the parts run for one sample."""
        return 1

    def outputs_of(self, member: int, x: Tensor) -> Tensor:
        """Return the raw outputs of one member, (batch, out)."""
        outputs: Tensor = self(x)
        return outputs[:, member]

    def member_places(self, depth: int) -> list[tuple[int | None, int]]:
        """Return the input and the exit of each member, counted from 1; by default None and the last exit."""
        return [(None, depth)] * len(self.weights)

    def folded(self, shape: Shape) -> Self:
        """Return a new network to ship that gives the same predictions without random numbers.

        Networks that join inputs or draw random numbers override this: in a shipped network every
        input is the same sample, and nothing may be drawn.

        Args:
            shape: The shape of one sample.
        """
        del shape
        return copy_of(self)


def named_parts(stem: nn.Module, stages: Iterable[nn.Module], exits: Mapping[int, nn.Module]) -> dict[str, nn.Module]:
    """Name the parts stem, stage_1 … and exit_j (behind stage j), counted from 1 as in the paper."""
    numbered = {stage_name(number): stage for number, stage in enumerate(stages, start=1)}
    return {STEM: stem, **numbered, **{exit_name(number): module for number, module in exits.items()}}
