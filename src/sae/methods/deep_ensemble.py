"""Independent networks whose probabilities are averaged; one of them is the standard network."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, PlainNetwork, build_backbone
from sae.config.run import BackboneConfig, EnsembleConfig, StandardConfig
from sae.core.predictive import member_nll
from sae.core.task import DataSpec
from sae.methods.base import Batch, Loss, ParameterGroup, SingleExitMethod


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


class DeepEnsemble(SingleExitMethod[NetworkList]):
    """Networks that share nothing; a member is a network, and an ensemble of one is `standard`.

    Weights are drawn one network after the other and each has a stream of batches of its own, so
    that a member is the same in ensembles of any size, and the same as a network trained alone.
    They are trained in a loop, or in several processes (`training.parallel`); one call for all (vmap)
    is never faster, see docs/benchmarks.md.
    """

    def __init__(self, settings: StandardConfig | EnsembleConfig, backbone: BackboneConfig, spec: DataSpec) -> None:
        num_members = settings.members if isinstance(settings, EnsembleConfig) else 1
        networks = NetworkList(
            PlainNetwork(build_backbone(backbone, spec.shape), spec.task.num_outputs) for _ in range(num_members)
        )
        super().__init__(spec.task, backbone.depth, networks)

    @property
    def num_streams(self) -> int:
        """One for each member."""
        return len(self.network.members)

    def stream_module(self, stream: int) -> nn.Module:
        """The member of this number."""
        return self.network.members[stream]

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Plain negative log-likelihood of the member whose stream this is; takes neither schedules nor noise."""
        del progress, generator
        outputs = self.network.members[batch.stream](batch.inputs)  # (batch, out)
        return Loss(member_nll(self.task, outputs, batch.targets).mean())

    def parameter_groups(self) -> list[ParameterGroup]:
        """Each network apart: how far one is clipped does not depend on another."""
        return [ParameterGroup("grad_norm", list(network.parameters())) for network in self.network.members]
