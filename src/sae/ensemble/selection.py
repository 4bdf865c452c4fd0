"""Members chosen after training: greedy selection on validation samples, within limits on the cost."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from sae.core.predictive import Gaussian, as_gaussian, gaussian_nll
from sae.core.task import Regression, Task

MOST_STEPS = 50
"""Members that are chosen, with repetitions; a weight is a multiple of one over their number."""

Members = frozenset[int]
"""The numbers of some members of an ensemble."""


@dataclass(frozen=True)
class Mixtures:
    """What the likelihood of a mixture needs to know of each member: numbers that a mixture averages.

    For classes, this is the probability of the true class, relative to that of the member that is best for the
    sample. For real values, it is the first and the second moment.

    Attributes:
        statistics: (member, sample, statistic), in float64.
        nll: From averages, (…, sample, statistic), to negative log-likelihoods, (…, sample).
    """

    statistics: Tensor
    nll: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, task: Task, outputs: Tensor, targets: Tensor) -> "Mixtures":
        """Reduce the outputs of members.

        Args:
            task: Decides what the outputs mean.
            outputs: Raw member outputs, (sample, member, out).
            targets: Labels, or values in the units of the data, (sample,).
        """
        outputs = outputs.double().transpose(0, 1)
        if isinstance(task, Regression):
            member, scaled = as_gaussian(outputs), (targets.double() - task.mean) / task.std
            unit = torch.tensor(task.std, dtype=torch.float64).log()

            def gaussian(mean: Tensor) -> Tensor:
                first, second = mean[..., 0], mean[..., 1]
                return gaussian_nll(Gaussian(first, second - first.square()), scaled) + unit

            return cls(torch.stack([member.mean, member.variance + member.mean.square()], dim=-1), gaussian)
        log_probs = outputs.log_softmax(dim=-1)
        true = log_probs.gather(-1, targets.long().expand(len(outputs), -1)[..., None])  # (member, sample, 1)
        best = true.amax(dim=0)  # keeps a probability that underflows from being 0
        return cls((true - best).exp(), lambda mean: -(mean.log() + best).squeeze(-1))

    def mixture_nll(self, weights: Tensor) -> float:
        """Return the mean negative log-likelihood of a mixture with these weights, (member,)."""
        mean = torch.einsum("m,mst->st", weights.double(), self.statistics)
        return self.nll(mean).mean().item()


@dataclass(frozen=True)
class Step:
    """A member that was chosen, and the validation NLL of all members chosen so far, as often as they were."""

    member: int
    nll: float


@dataclass(frozen=True)
class Selection:
    """Members that were chosen one after the other, each perhaps several times."""

    steps: tuple[Step, ...]

    @property
    def nll(self) -> float:
        """The validation NLL of the mixture."""
        return self.steps[-1].nll

    @property
    def members(self) -> Members:
        """The members that were chosen at least once."""
        return frozenset(step.member for step in self.steps)

    def weights(self, num_members: int) -> Tensor:
        """Return how often each member was chosen, as a share, (member,)."""
        counts = Counter(step.member for step in self.steps)
        return torch.tensor([counts[member] / len(self.steps) for member in range(num_members)])


def select_members(
    mixtures: Mixtures, is_allowed: Callable[[Members], bool], among: Iterable[int], most_steps: int = MOST_STEPS
) -> Selection | None:
    """Choose members greedily and with repetitions, as Caruana and others (ICML 2004) select ensembles.

    Every step adds the member with which the equally weighted mixture of all steps has the lowest NLL. Of all
    steps, the first ones that have the lowest NLL are kept: a member that does not help is not paid for.

    Args:
        mixtures: Of all members, on the samples that decide.
        is_allowed: Whether a set of members keeps the limits.
        among: The members to choose from.
        most_steps: The number of steps that are tried.

    Returns:
        What was chosen; None if not even one member alone is allowed.
    """
    offered = sorted(among)
    total, chosen, steps = torch.zeros_like(mixtures.statistics[0]), frozenset[int](), list[Step]()
    for number in range(1, most_steps + 1):
        allowed = [member for member in offered if member in chosen or is_allowed(chosen | {member})]
        if not allowed:
            return None
        nll = mixtures.nll((total + mixtures.statistics[allowed]) / number).mean(dim=-1)
        best = int(nll.argmin())
        steps.append(Step(allowed[best], nll[best].item()))
        total, chosen = total + mixtures.statistics[allowed[best]], chosen | {allowed[best]}
    lowest = min(range(most_steps), key=lambda index: steps[index].nll)
    return Selection(tuple(steps[: lowest + 1]))


def select_by_depth(
    mixtures: Mixtures, depth: int, is_allowed: Callable[[Members], bool], most_steps: int = MOST_STEPS
) -> Selection | None:
    """Choose members up to every depth, and return the choice with the lowest NLL.

    The deepest exit is most of the cost. Started at a deep exit, a greedy choice cannot
    return to several shallow ones that cost the same together.

    Args:
        mixtures: Of all members, ordered by input, then exit.
        depth: The number of exits.
        is_allowed: Whether a set of members keeps the limits.
        most_steps: As in `select_members`.
    """
    members = range(len(mixtures.statistics))
    found = [
        select_members(mixtures, is_allowed, [member for member in members if member % depth <= last], most_steps)
        for last in range(depth)
    ]
    return min((item for item in found if item is not None), key=lambda item: item.nll, default=None)
