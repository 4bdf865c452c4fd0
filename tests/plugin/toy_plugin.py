"""A package of somebody else: a method, a backbone and a metric in one file, which touches nothing of ours."""

import copy
import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from sae.backbones import Backbone, FeatureKind, MemberNetwork, StageInfo, build_backbone
from sae.config.backbones import BackboneSettings, register_backbone
from sae.config.methods import MethodSettings, register_method
from sae.core.objectives import register_metric
from sae.core.predictive import Categorical, member_nll
from sae.core.task import DataSpec, Shape
from sae.methods import Batch, Loss, Method


@register_method(
    "toy_plugin:TwoHeads",
    space={"heads": {"int": [1, 2]}},
    small={"heads": 2},
    influences={"heads": "method.heads"},
)
class TwoHeadsConfig(MethodSettings):
    """One network with several heads, whose predictions are averaged."""

    name: Literal["two_heads"] = "two_heads"
    heads: int = Field(2, ge=1, le=8, description="heads behind the last stage")

    def summary(self) -> list[str]:
        return [f"H={self.heads}"]


class HeadsNetwork(MemberNetwork):
    """A backbone with several heads behind its last stage."""

    def __init__(self, backbone: Backbone, num_heads: int, num_outputs: int) -> None:
        super().__init__(torch.full((num_heads,), 1.0 / num_heads))
        self.backbone, self.readout = backbone, backbone.readout()
        num_features = backbone.stage_info[-1].num_features
        self.heads = nn.ModuleList(nn.Linear(num_features, num_outputs) for _ in range(num_heads))

    def parts(self) -> dict[str, nn.Module]:
        return {"backbone": self.backbone, "readout": self.readout, "heads": self.heads}

    def forward(self, x: Tensor) -> Tensor:
        features = self.readout(self.backbone(x)[-1])
        return torch.stack([head(features) for head in self.heads], dim=1)


class TwoHeads(Method):
    """A member is a head."""

    def __init__(self, settings: TwoHeadsConfig, backbone: BackboneSettings, spec: DataSpec) -> None:
        super().__init__(spec.task, backbone.depth)
        self.network = HeadsNetwork(build_backbone(backbone, spec.shape), settings.heads, spec.task.num_outputs)

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        del progress, generator
        outputs = self.network(batch.inputs)
        targets = batch.targets[:, None].expand(*outputs.shape[:2], *batch.targets.shape[1:])
        return Loss(batch.mean(member_nll(self.task, outputs, targets)))

    def member_outputs(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.network(x)
        return outputs

    def member_weights(self, max_exits: int | None = None) -> Tensor:
        self.resolve_exits(max_exits)
        return self.network.weights

    def active_counts(self, max_exits: int | None = None) -> tuple[int, ...]:
        self.resolve_exits(max_exits)
        return (*[0] * (self.depth - 1), 1)

    def pruned(self, max_exits: int | None = None) -> MemberNetwork:
        self.resolve_exits(max_exits)
        return copy.deepcopy(self.network)


@register_backbone("toy_plugin:build_tower", small={"depth": 2})
class TowerConfig(BackboneSettings):
    """Linear layers, one on the other."""

    name: Literal["tower"] = "tower"
    width: int = Field(1, ge=1, le=4, description="times 32 features")
    depth: int = Field(3, ge=1, le=3, description="layers")


def build_tower(settings: TowerConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    num_features = 32 * settings.width
    stem = nn.Sequential(nn.Flatten(), nn.Linear(num_inputs * math.prod(shape), num_features), nn.ReLU())
    stages = [nn.Sequential(nn.Linear(num_features, num_features), nn.ReLU()) for _ in range(settings.depth)]
    return Backbone(stem, stages, [StageInfo(FeatureKind.VECTOR, (num_features,))] * settings.depth)


@register_metric("classification", label="sure share", maximise=True, upper=1.0)
def sure(predictive: Categorical, labels: Tensor) -> float:
    """Share of samples whose most probable class has a probability above one half."""
    del labels
    return (predictive.probs.amax(dim=1) > 0.5).double().mean().item()
