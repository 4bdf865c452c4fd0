"""Members chosen after training, on validation samples: greedily within limits on the cost; and weights by EM."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sae.core.errors import ConfigError
from sae.core.predictive import Gaussian, as_gaussian, as_log_probs, gaussian_nll
from sae.core.task import Regression, Task, num_targets

MOST_STEPS = 50
"""Members that are chosen, with repetitions; a weight is a multiple of one over their number."""

NUM_FOLDS = 5
GAP = 1e-5
"""EM stops when the NLL is at most this far from the lowest possible."""
MOST_ROUNDS = 5000
TINY = 1e-300
"""In place of a probability that underflows."""
SMALLEST_WEIGHT = 1e-3
"""A member below this weight is dropped, as exits are in training."""

Members = frozenset[int]
"""The numbers of some members of an ensemble."""


@dataclass(frozen=True)
class Mixtures:
    """Statistics of each member; their weighted mean gives the likelihood of a mixture.

    For classes, this is the probability of the true class, relative to that of the member that is best for the
    sample. For real values, it is the first and the second moment.

    Attributes:
        statistics: (member, sample, statistic), in float64.
        nll: Computes negative log-likelihoods, (…, sample), from averages, (…, sample, statistic).
    """

    statistics: Tensor
    nll: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, task: Task, outputs: Tensor, targets: Tensor) -> "Mixtures":
        """Compute the statistics from the outputs of members.

        Args:
            task: Decides what the outputs mean.
            outputs: Raw member outputs, (sample, member, out).
            targets: Labels, or values in the units of the data, (sample,).
        """
        if num_targets(task) is not None:
            raise ConfigError("members are chosen for one target, but this run predicts several: leave out sae trim")
        outputs = outputs.double().transpose(0, 1)
        if isinstance(task, Regression):
            shift, scale = torch.tensor([task.mean, task.std], dtype=torch.float64)
            member, scaled, unit = as_gaussian(task, outputs), (targets.double() - shift) / scale, scale.log()

            def gaussian(mean: Tensor) -> Tensor:
                first, second = mean[..., 0], mean[..., 1]
                nll: Tensor = gaussian_nll(Gaussian(first, second - first.square()), scaled) + unit
                return nll

            return cls(torch.stack([member.mean, member.variance + member.mean.square()], dim=-1), gaussian)
        log_probs = as_log_probs(task, outputs)
        true = log_probs.gather(-1, targets.long().expand(len(outputs), -1)[..., None])  # (member, sample, 1)
        best = true.amax(dim=0)  # so that no probability underflows to 0
        return cls((true - best).exp(), lambda mean: -(mean.log() + best).squeeze(-1))

    def on(self, samples: Tensor) -> "Mixtures":
        """Return the mixtures of classes on some samples; NLLs are relative to that of each sample's best member."""
        return Mixtures(self.statistics[:, samples], lambda mean: -mean.log().squeeze(-1))

    def mixture_nll(self, weights: Tensor) -> float:
        """Return the mean negative log-likelihood of a mixture with these weights, (member,)."""
        mean = torch.einsum("m,mst->st", weights.double(), self.statistics)
        return self.nll(mean).mean().item()


@dataclass(frozen=True)
class Step:
    """A chosen member, and the validation NLL of all members chosen so far, counted as often as they were chosen."""

    member: int
    nll: float


@dataclass(frozen=True)
class Selection:
    """Members that were chosen one after the other, each perhaps several times.

    Attributes:
        steps: The choice; empty if the members are those that the network has learnt to use.
        given: The weight of each used member; None if it is how often the member was chosen.
    """

    steps: tuple[Step, ...]
    given: Mapping[int, float] | None = None

    @property
    def nll(self) -> float:
        """The validation NLL of the mixture."""
        return self.steps[-1].nll

    @property
    def members(self) -> Members:
        """The members that are used."""
        return frozenset(self.given or (step.member for step in self.steps))

    def weights(self, num_members: int) -> Tensor:
        """Return the given weights, or how often each member was chosen, as a share, (member,)."""
        if self.given is not None:
            return torch.tensor([self.given.get(member, 0.0) for member in range(num_members)])
        counts = Counter(step.member for step in self.steps)
        return torch.tensor([counts[member] / len(self.steps) for member in range(num_members)])


def select_members(
    mixtures: Mixtures, is_allowed: Callable[[Members], bool], among: Iterable[int], most_steps: int = MOST_STEPS
) -> Selection | None:
    """Choose members greedily and with repetitions, as Caruana and others (ICML 2004) select ensembles.

    Every step adds the member that gives the equally weighted mixture of all steps the lowest NLL. Steps after the
    lowest NLL are dropped, so that a member that does not help costs nothing.

    Args:
        mixtures: Mixtures of all members, on the samples that the choice is based on.
        is_allowed: Whether a set of members keeps the limits.
        among: The members to choose from.
        most_steps: The number of steps that are tried.

    Returns:
        The selection; None if not even a single member is allowed.
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
        mixtures: Mixtures of all members, ordered by input, then exit.
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


def fit_weights(mixtures: Mixtures, members: Members) -> dict[int, float]:
    """Fit the weights of some members to samples by EM; return those of the members that keep a weight.

    The NLL of a mixture of class probabilities is convex in its weights. With g_m the mean over samples of member m's
    probability of the true class over that of the mixture, a round multiplies each weight by g_m, and max g_m − 1
    bounds how far the NLL is from the lowest possible.

    Args:
        mixtures: Mixtures of all members of a classifier, on the samples to fit to.
        members: The members to weigh.
    """
    assert mixtures.statistics.shape[-1] == 1, "the NLL of a collapsed Gaussian is not convex in the weights"
    used = sorted(members)
    while True:
        weight = _em(mixtures.statistics[used, :, 0].clamp_min(TINY))
        if weight.min() >= SMALLEST_WEIGHT:
            return dict(zip(used, weight.tolist(), strict=True))
        used = [member for member, is_kept in zip(used, weight >= SMALLEST_WEIGHT, strict=True) if is_kept]


def _em(probs: Tensor) -> Tensor:
    """Return the weights of the best mixture, (member,), for probabilities of the true classes, (member, sample)."""
    weight = torch.full((len(probs),), 1 / len(probs), dtype=torch.float64)
    for _ in range(MOST_ROUNDS):
        gradient = (probs / (weight @ probs)).mean(dim=1)
        if gradient.max() - 1 < GAP:
            break
        weight = weight * gradient
    return weight / weight.sum()


def gain_held_out(
    mixtures: Mixtures, members: Members, others: Callable[[Mixtures], Tensor], num_folds: int = NUM_FOLDS
) -> float:
    """Return how much fitted weights lower the NLL of held-out samples in a cross-validation.

    Args:
        mixtures: Mixtures of all members of a classifier, on all samples.
        members: The members to weigh.
        others: Computes the weights to compare with, (member,), from the samples to fit to.
        num_folds: The number of folds.
    """
    num_samples, num_members = mixtures.statistics.shape[1], len(mixtures.statistics)
    fold_of = (
        torch.randperm(num_samples, generator=torch.Generator().manual_seed(0)) % num_folds
    )  # the same folds in every run
    gain = 0.0
    for fold in range(num_folds):
        kept, held = mixtures.on(fold_of != fold), mixtures.on(fold_of == fold)
        fitted = Selection((), fit_weights(kept, members)).weights(num_members)
        gain += (held.mixture_nll(others(kept)) - held.mixture_nll(fitted)) * held.statistics.shape[1]
    return gain / num_samples
