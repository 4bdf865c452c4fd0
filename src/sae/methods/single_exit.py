"""What methods without early exits share: their members all answer behind the last stage."""

import copy
from typing import Generic, TypeVar

from torch import Tensor

from sae.backbones import MemberNetwork
from sae.core.task import Task
from sae.methods.base import Method

Network = TypeVar("Network", bound=MemberNetwork)


class SingleExitMethod(Method, Generic[Network]):
    """A method whose members are the answers of one network.

    Attributes:
        network: Predicts for all members, and has nothing superfluous.
    """

    def __init__(self, task: Task, depth: int, network: Network) -> None:
        super().__init__(task, depth)
        self.network: Network = network

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

    def pruned(self, max_exits: int | None = None) -> Network:
        """A copy: nothing in it is superfluous."""
        self.resolve_exits(max_exits)
        return copy.deepcopy(self.network)
