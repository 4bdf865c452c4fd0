"""One network that is asked several times in one pass: what MC dropout and BatchEnsemble share."""

import copy

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, PlainNetwork
from sae.ensemble.network import repeat_sample
from sae.methods.base import Method
from sae.task import Task


class RepeatedNetwork(MemberNetwork):
    """A network that takes each sample once for every member; members weigh the same.

    The network sees rows ordered by sample, then member: row i is of member i mod M.
    """

    def __init__(self, network: PlainNetwork, num_members: int) -> None:
        super().__init__(torch.full((num_members,), 1.0 / num_members))
        self.network, self.num_members = network, num_members

    def parts(self) -> dict[str, nn.Module]:
        """The parts of the one network."""
        return self.network.parts()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, *sample) → (batch, member, out)."""
        rows = repeat_sample(x, self.num_members).flatten(0, 1)
        outputs: Tensor = self.network(rows).unflatten(0, (-1, self.num_members))
        return outputs


class RepeatedMethod(Method):
    """A method whose members are the answers of one `RepeatedNetwork`."""

    def __init__(self, task: Task, depth: int, network: RepeatedNetwork) -> None:
        super().__init__(task, depth)
        self.network = network

    def member_outputs(self, x: Tensor) -> Tensor:
        """One member for each answer."""
        outputs: Tensor = self.network(x)
        return outputs

    def member_weights(self, max_exits: int | None = None) -> Tensor:
        """Equal weights."""
        self.resolve_exits(max_exits)
        return self.network.weights

    def active_counts(self, max_exits: int | None = None) -> tuple[int, ...]:
        """The one exit is the last."""
        self.resolve_exits(max_exits)
        return (*[0] * (self.depth - 1), 1)

    def pruned(self, max_exits: int | None = None) -> RepeatedNetwork:
        """A copy: nothing in it is superfluous."""
        self.resolve_exits(max_exits)
        return copy.deepcopy(self.network)
