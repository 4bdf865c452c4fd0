"""Independent networks whose probabilities are averaged; one of them is the standard network."""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, PlainNetwork, build_backbone
from sae.config import BackboneConfig, StandardConfig
from sae.methods.base import Batch, Loss, Method
from sae.predictive import member_nll
from sae.task import DataSpec


class NetworkList(MemberNetwork):
    """Plain networks side by side, each a member of equal weight."""

    def __init__(self, networks: Iterable[PlainNetwork]) -> None:
        members = nn.ModuleList(networks)
        super().__init__(torch.full((len(members),), 1.0 / len(members), device=next(members.parameters()).device))
        self.members = members

    def parts(self) -> dict[str, nn.Module]:
        """The parts of the one network, or each network as a whole."""
        if len(self.members) == 1 and isinstance(self.members[0], PlainNetwork):
            return self.members[0].parts()
        return {f"member_{number}": member for number, member in enumerate(self.members, start=1)}

    def forward(self, x: Tensor) -> Tensor:
        """(batch, *sample) → (batch, member, out)."""
        return torch.stack([member(x) for member in self.members], dim=1)


class DeepEnsemble(Method):
    """Networks that share nothing; a member is a network. For now an ensemble of one: `standard`."""

    def __init__(self, settings: StandardConfig, backbone: BackboneConfig, spec: DataSpec) -> None:
        super().__init__(spec.task, backbone.depth)
        self.settings = settings
        self.networks = NetworkList([PlainNetwork(build_backbone(backbone, spec.shape), spec.task.num_outputs)])

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Plain negative log-likelihood; takes neither schedules nor noise."""
        del progress, generator
        outputs = self.networks(batch.inputs)  # (batch, member, out)
        targets = batch.targets[:, None].expand(outputs.shape[:2])
        return Loss(member_nll(self.task, outputs, targets).mean(dim=0).sum())

    def member_outputs(self, x: Tensor) -> Tensor:
        """One member for each network."""
        outputs: Tensor = self.networks(x)
        return outputs

    def member_weights(self, max_exits: int | None = None) -> Tensor:
        """Equal weights."""
        self.resolve_exits(max_exits)
        return self.networks.weights

    def active_counts(self, max_exits: int | None = None) -> tuple[int, ...]:
        """The one exit is the last."""
        self.resolve_exits(max_exits)
        return (*[0] * (self.depth - 1), 1)

    def pruned(self, max_exits: int | None = None) -> NetworkList:
        """A copy: nothing in it is superfluous."""
        self.resolve_exits(max_exits)
        return copy.deepcopy(self.networks)
