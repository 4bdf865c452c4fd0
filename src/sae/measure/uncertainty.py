"""What a predictive distribution does not know, how its members differ, and what that is good for.

Per-sample numbers are tensors (batch,); the larger, the less certain. Summaries are floats.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sae.core.predictive import Categorical, Gaussian, Predictive, as_gaussian, mix_categoricals, mix_gaussians
from sae.core.task import Classification, Task

INTERVAL_LEVELS = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class VarianceParts:
    """A mixture's variance by where it comes from, (batch,) each; their sum is the variance.

    Attributes:
        within: The mean of the member variances: what each member doubts.
        between: The variance of the member means: how far they disagree.
    """

    within: Tensor
    between: Tensor


@dataclass(frozen=True)
class Diversity:
    """How differently the members of an ensemble predict, averaged over pairs of used members.

    Attributes:
        disagreement: Share of samples on which two members name different classes; for
            regression the root mean squared distance of their means.
        kl: Mean Kullback–Leibler divergence of one member from another.
    """

    disagreement: float
    kl: float


@dataclass(frozen=True)
class RiskCoverage:
    """What happens to the error if the least certain samples are passed on.

    Attributes:
        coverage: Share of samples kept, rising to 1.
        risk: Mean loss of those kept.
    """

    coverage: Tensor
    risk: Tensor

    @property
    def area(self) -> float:
        """AURC: the mean risk over all coverages; smaller is better."""
        return self.risk.mean().item()


def entropy(predictive: Predictive) -> Tensor:
    """Predictive entropy in nats, (batch,); differential entropy for a Gaussian."""
    if isinstance(predictive, Gaussian):
        return 0.5 * (predictive.variance.log() + math.log(2 * math.pi * math.e))
    return _entropy(predictive.log_probs)


def disagreement(task: Task, outputs: Tensor, weight: Tensor) -> Tensor:
    """How far the members disagree about each sample, (batch,).

    Classification: the mutual information between the prediction and the member, which is
    the entropy of the mixture minus the mean entropy of the members. Regression: the
    variance of the member means, in squared units of the data.

    Args:
        task: Says what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,), summing to 1.
    """
    if isinstance(task, Classification):
        log_probs = outputs.log_softmax(dim=-1)
        mean_entropy = (_entropy(log_probs) * weight).sum(dim=1)
        return (entropy(mix_categoricals(log_probs, weight)) - mean_entropy).clamp_min(0.0)
    return variance_parts(outputs, weight).between * task.std**2


def variance_parts(outputs: Tensor, weight: Tensor) -> VarianceParts:
    """The law of total variance, term by term, of raw outputs (batch, member, 2)."""
    member = as_gaussian(outputs)
    within = (weight * member.variance).sum(dim=1)
    return VarianceParts(within, mix_gaussians(member.mean, member.variance, weight).variance - within)


def diversity(task: Task, outputs: Tensor, weight: Tensor) -> Diversity | None:
    """How differently the used members predict; None where there is only one.

    Args:
        task: Says what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,); members of weight 0 are left out.
    """
    used = outputs[:, weight > 0].double()
    count = used.shape[1]
    if count < 2:
        return None
    pairs = count * (count - 1)
    if isinstance(task, Classification):
        log_probs = used.log_softmax(dim=-1)
        guess = log_probs.argmax(dim=-1)
        differ = (guess[:, :, None] != guess[:, None]).double().mean(dim=0).sum() / pairs
        cross = torch.einsum("bmc,bnc->mn", log_probs.exp(), log_probs) / len(used)  # Σ p_m log p_n
        kl = (cross.diagonal()[:, None] - cross).sum() / pairs
        return Diversity(differ.item(), kl.item())
    member = as_gaussian(used)
    mean, variance = member.mean, member.variance
    squared = (mean[:, :, None] - mean[:, None]).square()  # (batch, member, member)
    ratio = variance[:, :, None] / variance[:, None]
    kl = 0.5 * (ratio - 1 - ratio.log() + squared / variance[:, None]).mean(dim=0).sum() / pairs
    return Diversity((squared.mean(dim=0).sum() / pairs).sqrt().item() * task.std, kl.item())


def risk_coverage(uncertainty: Tensor, loss: Tensor) -> RiskCoverage:
    """The mean loss of the most certain samples, for every share of them.

    Args:
        uncertainty: (batch,); the largest are passed on first.
        loss: What each sample costs if it is kept, (batch,): 0 or 1, or a squared error.
    """
    kept = loss.double()[uncertainty.argsort(stable=True)]
    count = torch.arange(1, len(kept) + 1, dtype=torch.float64)
    return RiskCoverage(count / len(kept), kept.cumsum(0) / count)


def interval_metrics(predictive: Gaussian, targets: Tensor) -> dict[str, float]:
    """Coverage and mean width of central intervals: `coverage_90` should be 0.9, and `width_90` small."""
    measured = {}
    for level in INTERVAL_LEVELS:
        half = predictive.variance.sqrt() * math.sqrt(2) * torch.erfinv(torch.tensor(level)).item()
        inside = (targets - predictive.mean).abs() <= half
        measured[f"coverage_{level * 100:g}"] = inside.double().mean().item()
        measured[f"width_{level * 100:g}"] = (2 * half).double().mean().item()
    return measured


def auroc(inside: Tensor, outside: Tensor) -> float:
    """The chance that a sample from outside is less certain than one from inside; ties count half."""
    scores = torch.cat([inside, outside]).double()
    _, rank_of, counts = scores.unique(return_inverse=True, return_counts=True)
    mean_rank = counts.cumsum(0) - (counts - 1) / 2  # of all that share a score, from 1
    rank_sum = float(mean_rank[rank_of[len(inside) :]].sum())
    pairs = len(inside) * len(outside)
    return (rank_sum - len(outside) * (len(outside) + 1) / 2) / pairs


def fpr95(inside: Tensor, outside: Tensor) -> float:
    """Share of samples from inside that are flagged where 95 % of those from outside are."""
    descending = outside.double().sort(descending=True).values
    threshold = descending[math.ceil(0.95 * len(outside)) - 1]
    return (inside.double() >= threshold).double().mean().item()


def selection_loss(predictive: Predictive, targets: Tensor) -> Tensor:
    """What keeping a sample costs: 1 for a wrong class, the squared error for regression; (batch,)."""
    if isinstance(predictive, Categorical):
        return (predictive.log_probs.argmax(dim=1) != targets).double()
    return (predictive.mean - targets).double().square()


def _entropy(log_probs: Tensor) -> Tensor:
    """Σ −p log p over the last dimension; a probability of 0 adds nothing."""
    per_class: Tensor = torch.special.entr(log_probs.exp())
    return per_class.sum(dim=-1)
