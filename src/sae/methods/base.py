"""The interface of methods, and the base of methods without early exits."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork, PlainNetwork
from sae.backbones.base import copy_of
from sae.core.errors import ConfigError
from sae.core.predictive import Guidance
from sae.core.task import Task
from sae.ensemble.network import repeat_sample

Network = TypeVar("Network", bound=MemberNetwork)


@dataclass(frozen=True)
class Batch:
    """Training samples, prepared and augmented.

    Attributes:
        inputs: (batch, *sample).
        targets: (batch[, target]), class indices or standardised values.
        stream: The number of the method's stream that they come from; 0 if it has only one.
        population: |D|, the size of the training split; None if the batch is the whole split.
        guidance: Predictions of a teacher for them; None without a teacher.
        places: (batch,), their places among all versions of the training samples, where a teacher may look them up;
            None if unknown.
        weights: (batch,), how much each sample counts in the loss; None if all count 1.
    """

    inputs: Tensor
    targets: Tensor
    stream: int = 0
    population: int | None = None
    guidance: Guidance | None = None
    places: Tensor | None = None
    weights: Tensor | None = None

    def mean(self, losses: Tensor) -> Tensor:
        """Return the mean of losses, (batch,) or (batch, member), each times the weight of its sample."""
        if self.weights is None:
            return losses.mean()
        return (losses * self.weights.view(-1, *[1] * (losses.ndim - 1))).mean()


@dataclass(frozen=True)
class Loss:
    """The loss to minimise and the terms to log.

    Attributes:
        total: A scalar with a gradient.
        terms: Named scalars.
    """

    total: Tensor
    terms: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Members:
    """The outputs and weights of the members of an ensemble.

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
        norm: The name of their gradient norm in the history; groups with the same name are logged as their mean.
        parameters: At least one; no parameter is in two groups.
        decays: Whether weight decay applies.
    """

    norm: str
    parameters: list[nn.Parameter]
    decays: bool = True


class Method(nn.Module, ABC):
    """A way to train one or several networks that together give one predictive distribution.

    Methods with exits can be evaluated at any number of exits K′ up to their depth, because
    learnt weights rank the exits; `eval_exits=None` means the trained number K.

    Attributes:
        task: The task, which defines what the outputs mean.
        exits: K, the exits per input as trained; 1 for methods without early exits.
        depth: D, the number of stages of the backbone.
        seed: The seed of the run, for random draws at prediction.
        progress: The progress of training in [0, 1], on which predictions during training depend.
    """

    def __init__(self, task: Task, depth: int, exits: int = 1) -> None:
        super().__init__()
        self.task, self.depth, self.exits = task, depth, exits
        self.seed, self.progress = 0, 1.0

    @property
    def smallest_batch(self) -> int:
        """The fewest samples of a training batch; BatchNorm needs two positions."""
        return 2

    @property
    def num_streams(self) -> int:
        """The number of passes over the data in an epoch, each in an independent order."""
        return 1

    def stream_module(self, stream: int) -> nn.Module:
        """Return the module that is trained on one of several streams; streams share no parameters."""
        assert self.num_streams == 1, f"a method with several streams must override stream_module, got {stream=}"
        return self

    def trained_networks(self) -> list[nn.Module]:
        """Return the networks that `training_loss` calls, for `train.compile`; code around them is not compiled.

        A method whose settings say `can_compile` must override this.
        """
        raise NotImplementedError(
            f"a method that can be compiled must name its networks, {type(self).__name__} does not"
        )

    @property
    def exit_choices(self) -> tuple[int, ...]:
        """The numbers of exits K′ at which this method can predict."""
        return (self.exits,)

    @abstractmethod
    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Return the loss of one step on a batch; `progress` goes from 0 at the first step to 1 at the last."""

    @abstractmethod
    def member_outputs(self, x: Tensor) -> Tensor:
        """Return the raw outputs of all possible members, (batch, member, out), for samples (batch, *sample)."""

    def outputs_from(self, first: int, x: Tensor) -> Tensor:
        """Return `member_outputs` of consecutive samples of a split, starting at number `first`.

        The numbers matter to methods that draw at prediction: a sample's draws depend on its number and not on
        its batch.
        """
        del first
        return self.member_outputs(x)

    def shipped_outputs(self, x: Tensor) -> Tensor:
        """Return `member_outputs` as a shipped network must compute them, without new random numbers."""
        return self.member_outputs(x)

    @abstractmethod
    def member_weights(self, eval_exits: int | None = None) -> Tensor:
        """Return the weight of each of `member_outputs`, (member,), when each input keeps K′ exits."""

    @abstractmethod
    def active_counts(self, eval_exits: int | None = None) -> tuple[int, ...]:
        """Count the inputs that use each exit, shallowest first."""

    @abstractmethod
    def pruned(self, eval_exits: int | None = None) -> MemberNetwork:
        """Return a new network with only the parts that predict at K′ exits.

        Its cost depends on K′ and `active_counts` only, not on any weight, as long as every input uses an exit.
        """

    def choose(self, weights: Tensor) -> None:
        """Use member weights that were chosen after training, (member,), summing to 1."""
        raise NotImplementedError(f"a method with exits must take chosen weights, {type(self).__name__} does not")

    def pruned_to(self, active: Sequence[int], kept_inputs: int | None = None) -> MemberNetwork:
        """Return a new network in which `active[j]` inputs use exit j, instead of the learnt choice.

        Args:
            active: For each exit, how many inputs use it.
            kept_inputs: How many inputs the stem takes; by default all.
        """
        raise NotImplementedError(
            f"a method with exits must choose among them, {type(self).__name__} does not: {active=}"
        )

    def resolve_exits(self, eval_exits: int | None) -> int:
        """Return K′, or the trained K if none is given; refuse a K′ that this method cannot use."""
        if eval_exits is None:
            return self.exits
        if eval_exits not in self.exit_choices:
            first, last = self.exit_choices[0], self.exit_choices[-1]
            raise ConfigError(f"the number of exits must be in [{first}, {last}] for this network, got {eval_exits}")
        return eval_exits

    def predict_members(self, x: Tensor) -> Members:
        """Return the outputs and weights of the members for samples (batch, *sample)."""
        return Members(self.member_outputs(x), self.member_weights())

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return all parameters, in groups that are clipped together."""
        return [ParameterGroup("grad_norm", list(self.parameters()))]

    def observables(self) -> dict[str, float]:
        """Return numbers that describe the current state of the method, for the history of a run."""
        return {}


class SingleExitMethod(Method, Generic[Network]):
    """A method without early exits: its members are the outputs of one network behind the last stage.

    Attributes:
        network: The network, which predicts for all members.
    """

    def __init__(self, task: Task, depth: int, network: Network) -> None:
        super().__init__(task, depth)
        self.network: Network = network

    def member_outputs(self, x: Tensor) -> Tensor:
        """Return one member for each output of the network."""
        outputs: Tensor = self.network(x)
        return outputs

    def member_weights(self, eval_exits: int | None = None) -> Tensor:
        """Return equal weights."""
        self.resolve_exits(eval_exits)
        return self.network.weights

    def active_counts(self, eval_exits: int | None = None) -> tuple[int, ...]:
        """Return 0 for every exit but the last."""
        self.resolve_exits(eval_exits)
        return (*[0] * (self.depth - 1), 1)

    def pruned(self, eval_exits: int | None = None) -> Network:
        """Return a copy of the network; there is nothing to prune."""
        self.resolve_exits(eval_exits)
        return copy_of(self.network)


class RepeatedNetwork(MemberNetwork):
    """A network that takes each sample once for every member; all members weigh the same.

    Its rows are ordered by sample, then member: row i belongs to member i mod M.
    """

    def __init__(self, network: PlainNetwork, num_members: int) -> None:
        super().__init__(torch.full((num_members,), 1.0 / num_members))
        self.network, self.num_members = network, num_members

    @property
    def num_passes(self) -> int:
        """One pass for each member."""
        return self.num_members

    def parts(self) -> dict[str, nn.Module]:
        """Return the parts of the network."""
        return self.network.parts()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, *sample) → (batch, member, out)."""
        rows = repeat_sample(x, self.num_members).flatten(0, 1)
        outputs: Tensor = self.network(rows).unflatten(0, (-1, self.num_members))
        return outputs
