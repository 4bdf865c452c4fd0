"""Uncertainty of predictive distributions: entropy, disagreement, diversity, selective prediction, detection.

Uncertainties per sample are tensors (batch,); larger means less certain. Summaries are floats.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sae.core.predictive import (
    Categorical,
    Gaussian,
    Predictive,
    as_gaussian,
    in_units,
    mix_categoricals,
    mix_gaussians,
)
from sae.core.task import Classification, Task

INTERVAL_LEVELS = (0.5, 0.9, 0.95)
ROWS_AT_ONCE = 16384
"""Samples whose members are compared at once; every pair of members takes memory."""


@dataclass(frozen=True)
class VarianceParts:
    """The two terms of a mixture's variance, (batch,) each; their sum is the variance.

    Attributes:
        within: The mean of the member variances: the uncertainty of each member.
        between: The variance of the member means: their disagreement.
    """

    within: Tensor
    between: Tensor


@dataclass(frozen=True)
class Diversity:
    """Differences between the predictions of members, averaged over pairs of used members.

    Attributes:
        disagreement: Share of samples for which two members predict different classes; for
            regression the root mean squared distance of their means.
        kl: Mean Kullback–Leibler divergence of one member from another.
    """

    disagreement: float
    kl: float


@dataclass(frozen=True)
class RiskCoverage:
    """The error that remains if the least certain samples are deferred.

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
    """Return the predictive entropy in nats, (batch,); the differential entropy for a Gaussian."""
    if isinstance(predictive, Gaussian):
        return 0.5 * (predictive.variance.log() + math.log(2 * math.pi * math.e))
    return _entropy(predictive.log_probs)


def disagreement(task: Task, outputs: Tensor, weight: Tensor) -> Tensor:
    """Return how far the members disagree about each sample, (batch,).

    Classification: the mutual information between the prediction and the member, which is
    the entropy of the mixture minus the mean entropy of the members. Regression: the
    variance of the member means, in squared units of the data.

    Args:
        task: The task, which defines what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,), summing to 1.
    """
    if isinstance(task, Classification):
        log_probs = outputs.log_softmax(dim=-1)
        mean_entropy = (_entropy(log_probs) * weight).sum(dim=1)
        return (entropy(mix_categoricals(log_probs, weight)) - mean_entropy).clamp_min(0.0)
    between = Gaussian(outputs[:, 0, 0], variance_parts(outputs, weight).between)
    return in_units(task, between).variance


def variance_parts(outputs: Tensor, weight: Tensor) -> VarianceParts:
    """Return the terms of the law of total variance for raw outputs (batch, member, 2)."""
    member = as_gaussian(outputs)
    within = (weight * member.variance).sum(dim=1)
    return VarianceParts(within, mix_gaussians(member.mean, member.variance, weight).variance - within)


def diversity(task: Task, outputs: Tensor, weight: Tensor) -> Diversity | None:
    """Return how differently the used members predict, or None if there is only one.

    Args:
        task: The task, which defines what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,); members of weight 0 are left out.
    """
    used = weight > 0
    count = int(used.sum())
    if count < 2:
        return None
    differences = _class_differences if isinstance(task, Classification) else _gaussian_differences
    pieces = [differences(piece[:, used].double()) for piece in outputs.split(ROWS_AT_ONCE)]
    terms = len(outputs) * count * (count - 1)
    apart, divergence = (sum(sums) / terms for sums in zip(*pieces, strict=True))
    return Diversity(apart if isinstance(task, Classification) else math.sqrt(apart) * task.std, divergence)


def _class_differences(outputs: Tensor) -> tuple[float, float]:
    """Return the number of differing guesses and the KL divergence, summed over samples and pairs of members."""
    log_probs = outputs.log_softmax(dim=-1)
    guess = log_probs.argmax(dim=-1)
    differ = (guess[:, :, None] != guess[:, None]).sum()
    cross = torch.einsum("bmc,bnc->mn", log_probs.exp(), log_probs)  # Σ p_m log p_n
    return float(differ), (cross.diagonal()[:, None] - cross).sum().item()


def _gaussian_differences(outputs: Tensor) -> tuple[float, float]:
    """Return the squared difference of means and the KL divergence, summed over samples and pairs of members."""
    member = as_gaussian(outputs)
    mean, variance = member.mean, member.variance
    squared = (mean[:, :, None] - mean[:, None]).square()  # (batch, member, member)
    ratio = variance[:, :, None] / variance[:, None]
    return squared.sum().item(), 0.5 * (ratio - 1 - ratio.log() + squared / variance[:, None]).sum().item()


def error_correlations(task: Task, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the correlation of the errors of every two members, (member, member); NaN where one never varies.

    An error is whether the most probable class is wrong; for regression it is the difference of mean and target.

    Args:
        task: The task, which defines what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        targets: Labels, or values in the units of the data, (batch,).
    """
    if isinstance(task, Classification):
        errors = (outputs.argmax(dim=-1) != targets[:, None]).double()
    else:
        errors = as_gaussian(outputs).mean.double() - ((targets.double() - task.mean) / task.std)[:, None]
    centred = errors - errors.mean(dim=0)
    norms = centred.square().sum(dim=0).sqrt()
    return (centred.T @ centred) / (norms[:, None] * norms)


def error_correlation(task: Task, outputs: Tensor, weight: Tensor, targets: Tensor) -> float | None:
    """Return the mean correlation of the errors of two used members; 0 for independent members, 1 for equal ones.

    Pairs with a member that is always right, or always wrong, have none.

    Args:
        task: The task, which defines what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,); members of weight 0 are left out.
        targets: Labels, or values in the units of the data, (batch,).

    Returns:
        None if there is no pair.
    """
    used = outputs[:, weight > 0]
    first, second = torch.triu_indices(used.shape[1], used.shape[1], offset=1)
    found = error_correlations(task, used, targets)[first, second]
    known = found[~found.isnan()]
    return known.mean().item() if len(known) else None


def risk_coverage(uncertainty: Tensor, loss: Tensor) -> RiskCoverage:
    """Return the mean loss of the most certain samples, for every share of them.

    Equally certain samples could be kept in any order: the risk is the mean over all such orders, in which
    each of these samples counts with their mean loss. So it does not depend on the order of samples.

    Args:
        uncertainty: (batch,); samples with the largest are deferred first.
        loss: The loss of each sample if it is kept, (batch,): 0 or 1, or a squared error.
    """
    by_loss = loss.argsort(stable=True)  # sums do not depend on the order of samples
    order = by_loss[uncertainty[by_loss].argsort(stable=True)]
    _, tie, size = uncertainty[order].unique_consecutive(return_inverse=True, return_counts=True)
    total = torch.zeros(len(size), dtype=torch.float64).index_add(0, tie, loss[order].double())
    kept = (total / size)[tie]
    count = torch.arange(1, len(kept) + 1, dtype=torch.float64)
    return RiskCoverage(count / len(kept), kept.cumsum(0) / count)


def interval_metrics(predictive: Gaussian, targets: Tensor) -> dict[str, float]:
    """Return coverage and mean width of central intervals: `coverage_90` should be 0.9, `width_90` small."""
    measured = {}
    for level in INTERVAL_LEVELS:
        half = predictive.variance.sqrt() * math.sqrt(2) * torch.erfinv(torch.tensor(level)).item()
        inside = (targets - predictive.mean).abs() <= half
        measured[f"coverage_{level * 100:g}"] = inside.double().mean().item()
        measured[f"width_{level * 100:g}"] = (2 * half).double().mean().item()
    return measured


def auroc(inside: Tensor, outside: Tensor) -> float:
    """Return the probability that a sample from outside is less certain than one from inside; ties count half."""
    scores = torch.cat([inside, outside]).double()
    _, rank_of, counts = scores.unique(return_inverse=True, return_counts=True)
    mean_rank = counts.cumsum(0) - (counts - 1) / 2  # of all samples with the same score, from 1
    rank_sum = float(mean_rank[rank_of[len(inside) :]].sum())
    pairs = len(inside) * len(outside)
    return (rank_sum - len(outside) * (len(outside) + 1) / 2) / pairs


def fpr95(inside: Tensor, outside: Tensor) -> float:
    """Return the share of inside samples flagged at the threshold that flags 95 % of outside samples."""
    descending = outside.double().sort(descending=True).values
    threshold = descending[math.ceil(0.95 * len(outside)) - 1]
    return (inside.double() >= threshold).double().mean().item()


def selection_loss(predictive: Predictive, targets: Tensor) -> Tensor:
    """Return the loss of keeping each sample, (batch,): 1 for a wrong class, the squared error for regression."""
    if isinstance(predictive, Categorical):
        return (predictive.log_probs.argmax(dim=1) != targets).double()
    return (predictive.mean - targets).double().square()


def _entropy(log_probs: Tensor) -> Tensor:
    """Return Σ −p log p over the last dimension; a probability of 0 adds nothing."""
    probs = log_probs.exp()
    return -torch.xlogy(probs, probs).sum(dim=-1)  # the bits of torch.special.entr, which torch 2.9 cannot export
