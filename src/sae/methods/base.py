"""The contract of everything that can be trained and compared."""

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, PlainNetwork
from sae.core.errors import ConfigError
from sae.core.task import Task
from sae.ensemble.network import repeat_sample

Network = TypeVar("Network", bound=MemberNetwork)


@dataclass(frozen=True)
class Batch:
    """Training samples, prepared and augmented.

    Attributes:
        inputs: (batch, *sample).
        targets: (batch,), class indices or standardised values.
        stream: Which of the method's streams they come from; 0 for a method of one.
    """

    inputs: Tensor
    targets: Tensor
    stream: int = 0


@dataclass(frozen=True)
class Loss:
    """What to minimise, and what to log beside it.

    Attributes:
        total: A scalar with a gradient.
        terms: Named scalars.
    """

    total: Tensor
    terms: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Members:
    """What each member of an ensemble says.

    Attributes:
        outputs: Raw outputs, (batch, member, out).
        weights: (member,), summing to 1; 0 for a member that is not used.
    """

    outputs: Tensor
    weights: Tensor


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are clipped together.

    Attributes:
        norm: What their gradient norm is called in the history; groups of one name are logged as their mean.
        parameters: At least one; in no other group.
        decays: Whether weight decay applies.
    """

    norm: str
    parameters: list[nn.Parameter]
    decays: bool = True


class Method(nn.Module, ABC):
    """A way to train a network, or several, into one predictive distribution.

    Methods with exits can be read at any number of exits K′ up to their depth, because
    learnt weights rank the exits; `eval_exits=None` means the number they were trained for.

    Attributes:
        task: What the outputs mean.
        exits: K, exits per input at prediction; 1 for methods without exits.
        depth: D, stages of the backbone.
        seed: The run's; of whatever is drawn at prediction.
        progress: How far training has come, in [0, 1]; what predictions depend on while it lasts.
    """

    def __init__(self, task: Task, depth: int, exits: int = 1) -> None:
        super().__init__()
        self.task, self.depth, self.exits = task, depth, exits
        self.seed, self.progress = 0, 1.0

    @property
    def smallest_batch(self) -> int:
        """Fewer samples than this cannot be trained on: BatchNorm needs two positions."""
        return 2

    @property
    def num_streams(self) -> int:
        """How many times, and in how many independent orders, an epoch goes through the data."""
        return 1

    def stream_module(self, stream: int) -> nn.Module:
        """What is trained on one of several streams; shares nothing with the others."""
        assert self.num_streams == 1, f"a method of several streams must say what each trains, however: {stream=}"
        return self

    @property
    def exit_choices(self) -> tuple[int, ...]:
        """The numbers of exits K′ at which this method can predict."""
        return (self.exits,)

    @abstractmethod
    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """The loss of one step on a batch of one stream; `progress` runs from 0 at the first step to 1 at the last."""

    @abstractmethod
    def member_outputs(self, x: Tensor) -> Tensor:
        """Raw outputs of all possible members, (batch, member, out), for samples (batch, *sample)."""

    def shipped_outputs(self, x: Tensor) -> Tensor:
        """What a shipped network must give for all possible members: `member_outputs` with nothing drawn anew."""
        return self.member_outputs(x)

    @abstractmethod
    def member_weights(self, eval_exits: int | None = None) -> Tensor:
        """The weight of each of `member_outputs`, (member,), when each input keeps K′ exits."""

    @abstractmethod
    def active_counts(self, eval_exits: int | None = None) -> tuple[int, ...]:
        """How many inputs use each exit, shallowest first."""

    @abstractmethod
    def pruned(self, eval_exits: int | None = None) -> MemberNetwork:
        """A new network that predicts what this method does at K′ exits, and holds nothing else."""

    def resolve_exits(self, eval_exits: int | None) -> int:
        """K′, or the trained K if none is given; a number of exits that cannot be is refused."""
        if eval_exits is None:
            return self.exits
        if eval_exits not in self.exit_choices:
            first, last = self.exit_choices[0], self.exit_choices[-1]
            raise ConfigError(f"the number of exits must be in [{first}, {last}] for this network, got {eval_exits}")
        return eval_exits

    def predict_members(self, x: Tensor) -> Members:
        """What each member says of samples (batch, *sample)."""
        return Members(self.member_outputs(x), self.member_weights())

    def parameter_groups(self) -> list[ParameterGroup]:
        """All parameters, by what is clipped together."""
        return [ParameterGroup("grad_norm", list(self.parameters()))]

    def observables(self) -> dict[str, float]:
        """Numbers that describe the method's present state, for the history of a run."""
        return {}


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

    def member_weights(self, eval_exits: int | None = None) -> Tensor:
        """Equal weights."""
        self.resolve_exits(eval_exits)
        return self.network.weights

    def active_counts(self, eval_exits: int | None = None) -> tuple[int, ...]:
        """The one exit is the last."""
        self.resolve_exits(eval_exits)
        return (*[0] * (self.depth - 1), 1)

    def pruned(self, eval_exits: int | None = None) -> Network:
        """A copy: nothing in it is superfluous."""
        self.resolve_exits(eval_exits)
        return copy.deepcopy(self.network)


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
