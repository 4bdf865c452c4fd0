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
    as_log_probs,
    in_units,
    mix_categoricals,
    mix_gaussians,
)
from sae.core.task import Classification, Regression, Task, num_targets

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
    """Return the predictive entropy in nats, (batch,): differential for a Gaussian, the mean over several targets."""
    if isinstance(predictive, Gaussian):
        return _over_targets(0.5 * (predictive.variance.log() + math.log(2 * math.pi * math.e)))
    return _over_targets(_entropy(predictive.log_probs))


def _over_targets(values: Tensor) -> Tensor:
    """Return the mean over targets, (batch,), of values (batch[, target])."""
    return values if values.dim() == 1 else values.mean(dim=1)


def disagreement(task: Task, outputs: Tensor, weight: Tensor) -> Tensor:
    """Return how far the members disagree about each sample, (batch,).

    Classification: the mutual information between the prediction and the member, which is
    the entropy of the mixture minus the mean entropy of the members. Regression: the
    variance of the member means, in squared units of the data. Of several targets it is the mean, for values in
    squared deviations of the training targets.

    Args:
        task: The task, which defines what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,), summing to 1.
    """
    if isinstance(task, Classification):
        log_probs = as_log_probs(task, outputs)
        member_entropy = _entropy(log_probs)  # (batch, member[, target])
        if member_entropy.dim() == 3:
            member_entropy = member_entropy.mean(dim=2)
        mean_entropy = (member_entropy * weight).sum(dim=1)
        return (entropy(mix_categoricals(log_probs, weight)) - mean_entropy).clamp_min(0.0)
    between = variance_parts(task, outputs, weight).between
    if num_targets(task) is not None:
        return between.mean(dim=1).double()
    return in_units(task, Gaussian(outputs[:, 0, 0], between)).variance


def variance_parts(task: Regression, outputs: Tensor, weight: Tensor) -> VarianceParts:
    """Return the terms of the law of total variance, (batch[, target]), for raw outputs (batch, member, out)."""
    member = as_gaussian(task, outputs)
    within = (weight.view(-1, *[1] * (member.variance.dim() - 2)) * member.variance).sum(dim=1)
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
    pieces = [_differences(task, piece[:, used].double()) for piece in outputs.split(ROWS_AT_ONCE)]
    terms = len(outputs) * (num_targets(task) or 1) * count * (count - 1)
    apart, divergence = (sum(sums) / terms for sums in zip(*pieces, strict=True))
    if isinstance(task, Classification):
        return Diversity(apart, divergence)
    return Diversity(math.sqrt(apart) * (task.std if isinstance(task.std, float) else 1.0), divergence)


def _differences(task: Task, outputs: Tensor) -> tuple[float, float]:
    """Return how far pairs of members are apart, and their KL divergence, summed over samples, targets and pairs."""
    if isinstance(task, Classification):
        return _class_differences(_single(task, as_log_probs(task, outputs)))
    member = as_gaussian(task, outputs)
    return _gaussian_differences(Gaussian(_single(task, member.mean), _single(task, member.variance)))


def _single(task: Task, values: Tensor) -> Tensor:
    """Return values of several targets, (batch, member, target, …), as those of single ones, (batch·target, member, …).

    Others are unchanged.
    """
    return values if num_targets(task) is None else values.transpose(1, 2).flatten(0, 1)


def _class_differences(log_probs: Tensor) -> tuple[float, float]:
    """Return the number of differing guesses and the KL divergence, summed over samples and pairs of members."""
    guess = log_probs.argmax(dim=-1)
    differ = (guess[:, :, None] != guess[:, None]).sum()
    cross = torch.einsum("bmc,bnc->mn", log_probs.exp(), log_probs)  # Σ p_m log p_n
    return float(differ), (cross.diagonal()[:, None] - cross).sum().item()


def _gaussian_differences(member: Gaussian) -> tuple[float, float]:
    """Return the squared difference of means and the KL divergence, summed over samples and pairs of members."""
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
        guess = _single(task, as_log_probs(task, outputs)).argmax(dim=-1)
        errors = (guess != targets.flatten()[:, None]).double()
    else:
        shift, scale = torch.tensor([task.mean, task.std], dtype=torch.float64)
        mean = _single(task, as_gaussian(task, outputs).mean.double())
        errors = mean - ((targets.double() - shift) / scale).flatten()[:, None]
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
        return _over_targets((predictive.log_probs.argmax(dim=-1) != targets).double())
    if targets.dim() == 1:
        return (predictive.mean - targets).double().square()
    unit = targets.double().std(dim=0, correction=0).clamp_min(torch.finfo(torch.float64).tiny)
    return _over_targets(((predictive.mean - targets) / unit).double().square())


def _entropy(log_probs: Tensor) -> Tensor:
    """Return Σ −p log p over the last dimension; a probability of 0 adds nothing."""
    probs = log_probs.exp()
    return -torch.xlogy(probs, probs).sum(dim=-1)  # the bits of torch.special.entr, which torch 2.9 cannot export
