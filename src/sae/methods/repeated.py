"""One network that is asked several times in one pass: what MC dropout and BatchEnsemble share."""

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, PlainNetwork
from sae.ensemble.network import repeat_sample


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
