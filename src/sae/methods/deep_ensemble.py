"""Deep ensembles: independent networks whose predictions are averaged; an ensemble of one is the standard network."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, PlainNetwork, build_backbone
from sae.config.backbones import BackboneSource
from sae.config.methods import MethodSettings
from sae.core.parts import member_name
from sae.core.predictive import member_loss
from sae.core.task import DataSpec
from sae.methods.base import Batch, Loss, ParameterGroup, SingleExitMethod


class NetworkList(MemberNetwork):
    """Plain networks that are members of equal weight."""

    def __init__(self, networks: Iterable[PlainNetwork]) -> None:
        members = nn.ModuleList(networks)
        super().__init__(torch.full((len(members),), 1.0 / len(members), device=next(members.parameters()).device))
        self.members = members

    def parts(self) -> dict[str, nn.Module]:
        """Return the parts of a single network, or each of several networks as a whole."""
        if len(self.members) == 1 and isinstance(self.members[0], PlainNetwork):
            return self.members[0].parts()
        return {member_name(number): member for number, member in enumerate(self.members, start=1)}

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, *sample) → (batch, member, out)."""
        return torch.stack([member(x) for member in self.members], dim=1)

    def outputs_of(self, member: int, x: Tensor) -> Tensor:
        """Return the raw outputs of one member, (batch, out), without those of the others."""
        outputs: Tensor = self.members[member](x)
        return outputs


class DeepEnsemble(SingleExitMethod[NetworkList]):
    """An ensemble of networks that share nothing; an ensemble of one is `standard`.

    Weights are drawn one network after the other, and each network has its own stream of batches.
    A member is therefore the same in ensembles of any size, and the same as a network trained alone.
    The networks are trained in a loop, or in several processes (`training.parallel`); one call for
    all of them (vmap) is never faster, see docs/benchmarks.md.
    """

    def __init__(self, settings: MethodSettings, backbone: BackboneSource, spec: DataSpec) -> None:
        networks = NetworkList(
            PlainNetwork(build_backbone(backbone, spec.shape), spec.task.num_outputs)
            for _ in range(settings.num_members)
        )
        super().__init__(spec.task, backbone.depth, networks)

    @property
    def num_streams(self) -> int:
        """One stream for each member."""
        return len(self.network.members)

    def stream_module(self, stream: int) -> nn.Module:
        """Return the member with this number."""
        return self.network.members[stream]

    def trained_networks(self) -> list[nn.Module]:
        """Return all members."""
        return list(self.network.members)

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Return the mean loss of the member of this stream, which learns from the teacher of its own number."""
        del progress, generator
        outputs = self.network.members[batch.stream](batch.inputs)  # (batch, out)
        guidance = batch.guidance and batch.guidance.of_all(batch.stream)
        return Loss(batch.mean(member_loss(self.task, outputs, batch.targets, guidance)))

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return one group per network, so that networks are clipped independently."""
        return [ParameterGroup("grad_norm", list(network.parameters())) for network in self.network.members]
