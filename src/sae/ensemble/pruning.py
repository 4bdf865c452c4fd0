"""Surgery: from the network in training to a new one that computes only what is used."""

import copy
from typing import Self

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, named_parts
from sae.core.task import Shape
from sae.ensemble.folding import folded_stem
from sae.ensemble.network import MultiExitNetwork, join_inputs, repeat_sample


class Exit(nn.Module):
    """A connector and the head rows of the inputs that use this exit."""

    def __init__(self, connector: nn.Module, head: nn.Linear, num_outputs: int) -> None:
        super().__init__()
        self.connector, self.head, self.num_outputs = connector, head, num_outputs

    def forward(self, features: Tensor) -> Tensor:
        """Stage features → (batch, member, out), one member for each input that uses this exit."""
        outputs: Tensor = self.head(self.connector(features))
        members: Tensor = outputs.unflatten(1, (-1, self.num_outputs))
        return members


class PrunedNetwork(MemberNetwork):
    """The network that predicts, and nothing else: used exits, used rows, stages up to the last used exit.

    Shape: (batch, *sample) → (batch, member, out), members ordered by exit, then input.

    Args:
        network: The network to prune; it stays as it is.
        exit_weights: θ*, (input, exit); a member is a pair that is not 0, and weighs θ*/N.

    Attributes:
        members: The (input, exit) pair behind each member.
        num_inputs: How often the stem takes a sample: N, or 1 once it is folded.
    """

    def __init__(self, network: MultiExitNetwork, exit_weights: Tensor) -> None:
        pairs = (exit_weights.T > 0).nonzero().tolist()  # [exit, input], by exit
        self.members = tuple((i, j) for j, i in pairs)
        super().__init__(torch.stack([exit_weights[i, j] for i, j in self.members]) / exit_weights.sum())
        self.num_inputs = len(exit_weights)
        self.stem = copy.deepcopy(network.backbone.stem)
        used_exits = sorted({exit_index for _, exit_index in self.members})
        self.stages = nn.ModuleList(copy.deepcopy(stage) for stage in network.backbone.stages[: used_exits[-1] + 1])
        self.exits = nn.ModuleDict()
        for j in used_exits:
            inputs = [i for i, exit_index in self.members if exit_index == j]
            head = network.heads.linear(j, inputs)
            connector = copy.deepcopy(network.connectors[j])
            self.exits[str(j)] = Exit(connector, head, network.heads.num_outputs)
        self.train(network.training)

    def forward(self, x: Tensor) -> Tensor:
        """Raw outputs of the members."""
        features = self.stem(x if self.num_inputs == 1 else join_inputs(repeat_sample(x, self.num_inputs)))
        outputs = []
        for index, stage in enumerate(self.stages):
            features = stage(features)
            if str(index) in self.exits:
                outputs.append(self.exits[str(index)](features))
        return torch.cat(outputs, dim=1)

    def parts(self) -> dict[str, nn.Module]:
        """Stem, stages and exits."""
        return named_parts(self.stem, self.stages, {int(key) + 1: module for key, module in self.exits.items()})

    def folded(self, shape: Shape) -> Self:
        """The same with a stem that takes the sample once, where this one takes it N times."""
        del shape
        network = copy.deepcopy(self)
        network.stem, network.num_inputs = folded_stem(self.stem, self.num_inputs), 1
        return network


def active_counts(exit_weights: Tensor) -> tuple[int, ...]:
    """How many inputs use each exit: n^j in the paper's cost formulas."""
    return tuple((exit_weights > 0).sum(dim=0).tolist())
