"""BatchEnsemble: members that share all weights except rank-1 factors in every layer."""

from typing import Self

import torch
from torch import Tensor, nn

from sae.backbones import PlainNetwork, build_backbone
from sae.backbones.base import copy_of
from sae.backbones.surgery import WeightLayer, replaced, weight_layers
from sae.config.backbones import BackboneSource
from sae.config.methods import BatchEnsembleConfig
from sae.core.predictive import member_loss
from sae.core.task import DataSpec, Shape
from sae.methods.base import Batch, Loss, RepeatedNetwork, SingleExitMethod

FACTOR_STD = 0.01
"""The standard deviation of the initial rank-1 factors around 1."""


class RankOneLayer(nn.Module):
    """A Linear or convolution whose weight is W ∘ (s rᵀ) for each member: ((x ∘ r) W) ∘ s + b.

    Row i of a batch belongs to member i mod M, so that the members' shares of a batch differ by
    at most one row.

    Args:
        layer: The layer whose weight is shared and whose bias each member starts from; it is modified.
        num_members: M.
    """

    def __init__(self, layer: WeightLayer, num_members: int) -> None:
        super().__init__()
        self.features_last = isinstance(layer, nn.Linear)
        groups = 1 if isinstance(layer, nn.Linear) else layer.groups
        out_features, in_features = layer.weight.shape[0], layer.weight.shape[1] * groups
        device = layer.weight.device
        self.r = nn.Parameter(1 + FACTOR_STD * torch.randn(num_members, in_features, device=device))
        self.s = nn.Parameter(1 + FACTOR_STD * torch.randn(num_members, out_features, device=device))
        bias = layer.bias
        self.bias = None if bias is None else nn.Parameter(bias.detach().expand(num_members, -1).clone())
        layer.register_parameter("bias", None)
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Map (row, in, …) → (row, out, …), with features last for a Linear."""
        output: Tensor = self.layer(x * self._by_row(self.r, x)) * self._by_row(self.s, x)
        return output if self.bias is None else output + self._by_row(self.bias, x)

    def _by_row(self, values: Tensor, x: Tensor) -> Tensor:
        """Map (member, feature) → (row, feature), with dimensions of 1 where `x` has positions."""
        num_members, num_rows = len(values), len(x)
        dealt = values.repeat(-(-num_rows // num_members), 1)[:num_rows]
        positions = [1] * (x.dim() - 2)
        return dealt.view(num_rows, *positions, -1) if self.features_last else dealt.view(num_rows, -1, *positions)


class MemberwiseRankOneLayer(nn.Module):
    """A `RankOneLayer` for batches that hold every sample once for each member, ordered by sample, then member.

    The factors are broadcast to the rows; `RankOneLayer` has to repeat them for batches of any size.
    """

    def __init__(self, source: RankOneLayer) -> None:
        super().__init__()
        copied = copy_of(source)
        self.layer, self.features_last = copied.layer, copied.features_last
        self.r, self.s, self.bias = copied.r, copied.s, copied.bias

    def forward(self, x: Tensor) -> Tensor:
        """Map (row, in, …) → (row, out, …), with features last for a Linear."""
        rows = self._by_member(x) * self._aligned(self.r, x)
        outputs = self._by_member(self.layer(rows.flatten(0, 1))) * self._aligned(self.s, x)
        return (outputs if self.bias is None else outputs + self._aligned(self.bias, x)).flatten(0, 1)

    def _by_member(self, x: Tensor) -> Tensor:
        """Map (row, …) → (batch, member, …)."""
        by_member: Tensor = x.unflatten(0, (-1, len(self.r)))
        return by_member

    def _aligned(self, values: Tensor, x: Tensor) -> Tensor:
        """Return `values`, (member, feature), with dimensions of 1 where `x` has positions."""
        positions = [1] * (x.dim() - 2)
        shape = [*positions, -1] if self.features_last else [-1, *positions]
        return values.view(len(values), *shape)


class FactoredNetwork(RepeatedNetwork):
    """A network whose members differ in the rank-1 factors of its layers."""

    def folded(self, shape: Shape) -> Self:
        """Return a copy that is still in rank-1 form, M times smaller than separate members."""
        del shape
        names = [name for name, module in self.named_modules() if isinstance(module, RankOneLayer)]

        def replace(layer: nn.Module) -> MemberwiseRankOneLayer:
            assert isinstance(layer, RankOneLayer)
            return MemberwiseRankOneLayer(layer)

        return replaced(self, dict.fromkeys(names, replace))


def with_rank_one_factors(network: PlainNetwork, num_members: int) -> PlainNetwork:
    """Return a copy of the network with a `RankOneLayer` for every Linear and convolution."""

    def replace(layer: nn.Module) -> RankOneLayer:
        assert isinstance(layer, WeightLayer)
        return RankOneLayer(layer, num_members)

    return replaced(network, dict.fromkeys(weight_layers(network), replace))


class BatchEnsemble(SingleExitMethod[FactoredNetwork]):
    """A member is one set of rank-1 factors and biases; BatchNorm is shared."""

    def __init__(self, settings: BatchEnsembleConfig, backbone: BackboneSource, spec: DataSpec) -> None:
        plain = PlainNetwork(build_backbone(backbone, spec.shape), spec.task.num_outputs)
        network = FactoredNetwork(with_rank_one_factors(plain, settings.members), settings.members)
        super().__init__(spec.task, backbone.depth, network)
        self.settings = settings

    def trained_networks(self) -> list[nn.Module]:
        """Return the network with its factors."""
        return [self.network.network]

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Return the mean loss; exactly one member sees each sample, and learns from the teacher of its own number."""
        del progress, generator
        outputs = self.network.network(batch.inputs)
        member = torch.arange(len(outputs), device=outputs.device) % self.settings.members
        guidance = batch.guidance and batch.guidance.of_all(member)
        return Loss(batch.mean(member_loss(self.task, outputs, batch.targets, guidance)))
