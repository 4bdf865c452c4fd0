"""Packed ensembles: one network in streams that share only the stem; each stream is a member.

Laurent et al., Packed-Ensembles for Efficient Uncertainty Estimation (ICLR 2023).
"""

from typing import Self

import torch
from torch import Tensor, nn

from sae.backbones import Backbone, MemberNetwork, build_backbone, named_parts
from sae.backbones.base import copy_of
from sae.backbones.streams import BlockLinear, fuse_blocks, in_streams
from sae.config.backbones import BackboneSource
from sae.config.methods import PackedConfig
from sae.core.predictive import member_loss
from sae.core.task import DataSpec, Shape
from sae.methods.base import Batch, Loss, SingleExitMethod


class PackedNetwork(MemberNetwork):
    """A backbone in streams, with a head for each; a stream is a member.

    Args:
        backbone: A backbone whose stages work in `num_streams` groups.
        num_streams: G.
        num_outputs: How many numbers the task needs for one prediction.
    """

    def __init__(self, backbone: Backbone, num_streams: int, num_outputs: int) -> None:
        super().__init__(torch.full((num_streams,), 1.0 / num_streams))
        num_features = backbone.stage_info[-1].num_features
        self.backbone, self.num_streams = backbone, num_streams
        sizes = num_features, num_streams * num_outputs
        head = nn.Linear(*sizes) if num_streams == 1 else BlockLinear(*sizes, groups=num_streams)
        self.exit = nn.Sequential(backbone.readout(), head)

    def parts(self) -> dict[str, nn.Module]:
        """Return the stem, the stages and the exit."""
        return named_parts(self.backbone.stem, self.backbone.stages, {self.backbone.depth: self.exit})

    def folded(self, shape: Shape) -> Self:
        """Return a copy with BatchNorm fused into block-diagonal layers."""
        network = copy_of(self)
        fuse_blocks(network, shape)
        return network

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, *sample) → (batch, member, out)."""
        outputs: Tensor = self.exit(self.backbone(x)[-1])
        members: Tensor = outputs.unflatten(1, (self.num_streams, -1))
        return members


class Packed(SingleExitMethod[PackedNetwork]):
    """A packed ensemble: all members see the same batch."""

    def __init__(self, settings: PackedConfig, backbone: BackboneSource, spec: DataSpec) -> None:
        settings.check(backbone)
        streams = in_streams(build_backbone(backbone, spec.shape), settings.members)
        super().__init__(spec.task, backbone.depth, PackedNetwork(streams, settings.members, spec.task.num_outputs))
        self.settings = settings

    def trained_networks(self) -> list[nn.Module]:
        """Return the network with all its streams."""
        return [self.network]

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Return the mean loss of all members on every sample; a member learns from the teacher of its own number."""
        del progress, generator
        outputs = self.network(batch.inputs)  # (batch, member, out)
        targets = batch.targets[:, None].expand(*outputs.shape[:2], *batch.targets.shape[1:])
        guidance = batch.guidance and batch.guidance.of(*_pairs(outputs))
        return Loss(batch.mean(member_loss(self.task, outputs, targets, guidance)))


def _pairs(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sample and the member of every output, (batch, 1) and (member,)."""
    num_samples, num_members = outputs.shape[:2]
    return torch.arange(num_samples, device=outputs.device)[:, None], torch.arange(num_members, device=outputs.device)
