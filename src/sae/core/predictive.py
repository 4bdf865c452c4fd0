"""Predictive distributions, from the raw outputs of the members of an ensemble.

Raw outputs, (…, out), are logits for classification, and mean and log-variance for
regression. Only this module knows what they mean. Tasks with several targets have one dimension more: [target] below
is absent for others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from sae.core.task import (
    Classification,
    Counts,
    MultiLabel,
    Ordinal,
    Regression,
    Task,
    WeightedClassification,
    num_targets,
)

MIN_LOG_VARIANCE, MAX_LOG_VARIANCE = -6.0, 1.0
LARGEST_LOG_MEAN = 10.0
"""Counts are predicted up to e¹⁰ times their mean in training."""
SMALLEST_GAP = 1e-4
"""Least distance of two cumulative logits, so that no class has probability 0."""


@dataclass(frozen=True)
class Categorical:
    """A distribution over classes for each sample.

    Log-probabilities are kept, because a probability that underflows to 0 would make the
    negative log-likelihood infinite.

    Attributes:
        log_probs: (batch, [target,] class).
    """

    log_probs: Tensor

    @property
    def probs(self) -> Tensor:
        """Probabilities, (batch, [target,] class)."""
        return self.log_probs.exp()


@dataclass(frozen=True)
class Gaussian:
    """A normal distribution for each sample.

    Attributes:
        mean: (batch[, target]).
        variance: (batch[, target]).
    """

    mean: Tensor
    variance: Tensor


Predictive = Categorical | Gaussian


def join(parts: Sequence[Predictive]) -> Predictive:
    """Return the predictions of several lots of samples, which are of one kind, as one."""
    tensors = zip(*(vars(part).values() for part in parts), strict=True)
    return type(parts[0])(*map(torch.cat, tensors))


def as_numbers(predictive: Predictive) -> Tensor:
    """Return the log-probabilities, or mean and variance, of each sample, (batch, [target,] number)."""
    if isinstance(predictive, Categorical):
        return predictive.log_probs
    return torch.stack([predictive.mean, predictive.variance], dim=-1)


def as_gaussian(task: Regression, outputs: Tensor) -> Gaussian:
    """Read raw outputs (…, out) as mean and log-variance, (…[, target]); the latter is clamped to [−6, 1].

    Of counts, they are the logarithms of mean μ and dispersion κ: the variance is μ + κ·μ².

    Example:
        >>> as_gaussian(Regression(), torch.tensor([[3.0, 0.0]]))
        Gaussian(mean=tensor([3.]), variance=tensor([1.]))
        >>> as_gaussian(Counts(std=2.0), torch.tensor([[0.0, 0.0]]))  # of y / 2: μ = 1, and κ = 1
        Gaussian(mean=tensor([1.]), variance=tensor([1.5000]))
    """
    if num_targets(task) is not None:
        outputs = outputs.unflatten(-1, (-1, 2))
    second = bounded(outputs[..., 1], MIN_LOG_VARIANCE, MAX_LOG_VARIANCE).exp()
    if not isinstance(task, Counts):
        return Gaussian(outputs[..., 0], second)
    assert isinstance(task.std, float), "counts are single numbers"
    mean = bounded(outputs[..., 0], -LARGEST_LOG_MEAN, LARGEST_LOG_MEAN).exp()
    return Gaussian(mean, mean / task.std + second * mean.square())


def bounded(values: Tensor, lowest: float, highest: float) -> Tensor:
    """Return values clamped to bounds, which they find back from in training."""
    if not values.requires_grad:
        return values.clamp(lowest, highest)
    found: Tensor = _Bounded.apply(values, lowest, highest)  # type: ignore[no-untyped-call]
    return found


class _Bounded(torch.autograd.Function):
    """A clamp that passes gradients that lead back from outside; else what went too far would stay there."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, lowest: float, highest: float) -> Tensor:
        ctx.save_for_backward(values)
        ctx.bounds = lowest, highest
        return values.clamp(lowest, highest)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (values,), (lowest, highest) = ctx.saved_tensors, ctx.bounds
        leads_up, leads_down = gradient < 0, gradient > 0  # descent goes against the gradient
        is_stuck = (values > highest) & leads_up | (values < lowest) & leads_down
        return gradient.masked_fill(is_stuck, 0.0), None, None


def as_log_probs(task: Classification, outputs: Tensor) -> Tensor:
    """Read raw outputs (…, out) as log-probabilities of the classes, (…, [target,] class).

    Example:
        >>> as_log_probs(Ordinal(3), torch.tensor([0.0, 0.5413])).exp()  # boundaries at 0 and at 1
        tensor([0.5000, 0.2311, 0.2689])
    """
    if isinstance(task, MultiLabel):
        return torch.stack([F.logsigmoid(-outputs), F.logsigmoid(outputs)], dim=-1)
    return _between(outputs) if isinstance(task, Ordinal) else outputs.log_softmax(dim=-1)


def _between(outputs: Tensor) -> Tensor:
    """Return the log-probabilities of ordered classes, whose k-th boundary is at c_k: P(y < k) = σ(c_k).

    The first output is c_1, the others are distances of neighbours before a softplus, so boundaries are in order.
    In between, σ(b) − σ(a) = σ(b)·σ(−a)·(1 − exp(a − b)).
    """
    gaps = F.softplus(outputs[..., 1:]) + SMALLEST_GAP
    cuts = torch.cat([outputs[..., :1], gaps], dim=-1).cumsum(dim=-1)
    below, above = F.logsigmoid(cuts), F.logsigmoid(-cuts)
    inner = below[..., 1:] + above[..., :-1] + torch.log1p(-torch.exp(-gaps))
    return torch.cat([below[..., :1], inner, above[..., -1:]], dim=-1)


def mix_categoricals(log_probs: Tensor, weight: Tensor) -> Categorical:
    """Average member probabilities, in log space so that none underflows.

    Args:
        log_probs: Member log-probabilities, (batch, member, [target,] class).
        weight: Member weights, (member,), summing to 1; a weight of 0 leaves its member out.

    Example:
        >>> halves = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log()
        >>> mix_categoricals(halves, torch.tensor([0.75, 0.25])).probs
        tensor([[0.7500, 0.2500]])
    """
    return Categorical(torch.logsumexp(log_probs + _beside(weight.log(), log_probs), dim=1))


def mix_gaussians(mean: Tensor, variance: Tensor, weight: Tensor) -> Gaussian:
    """Collapse member Gaussians into one by the law of total variance.

    The result's variance is the mean of the member variances plus the variance of the
    member means: the doubt of each member, plus their disagreement.

    Args:
        mean: Member means, (batch, member[, target]).
        variance: Member variances, shaped like `mean`.
        weight: Member weights, (member,), summing to 1.

    Example:
        >>> mix_gaussians(torch.tensor([[0.0, 2.0]]), torch.ones(1, 2), torch.tensor([0.5, 0.5]))
        Gaussian(mean=tensor([1.]), variance=tensor([2.]))
    """
    weight = _beside(weight, mean)
    mixed = (weight * mean).sum(dim=1)  # (batch[, target])
    disagreement = (weight * (mean - mixed[:, None]).square()).sum(dim=1)
    return Gaussian(mixed, (weight * variance).sum(dim=1) + disagreement)


def _beside(weight: Tensor, values: Tensor) -> Tensor:
    """Return member weights in a form that multiplies values, (batch, member, …)."""
    return weight.view(-1, *[1] * (values.dim() - 2))


def aggregate(task: Task, outputs: Tensor, weight: Tensor) -> Predictive:
    """Combine the outputs of all members into one predictive distribution, in the units of the data.

    Args:
        task: Decides what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,), summing to 1.
    """
    if isinstance(task, Classification):
        return mix_categoricals(as_log_probs(task, outputs), weight)
    member = as_gaussian(task, outputs)
    return in_units(task, mix_gaussians(member.mean, member.variance, weight))


def member_values(task: Task, outputs: Tensor) -> Tensor:
    """Return the prediction of every member for people to read, (…, out).

    Args:
        task: Decides what the outputs mean.
        outputs: Raw outputs, (…, out).

    Returns:
        Probabilities of the classes, or mean and variance in the units of the data, (…, [target,] number).

    Example:
        >>> member_values(Regression(mean=5.0, std=2.0), torch.tensor([[[1.0, 0.0]]]))
        tensor([[[7., 4.]]], dtype=torch.float64)
    """
    if isinstance(task, Classification):
        plain = type(task) in (Classification, WeightedClassification)
        return outputs.softmax(dim=-1) if plain else as_log_probs(task, outputs).exp()
    member = in_units(task, as_gaussian(task, outputs))
    return torch.stack([member.mean, member.variance], dim=-1)


def in_units(task: Regression, gaussian: Gaussian) -> Gaussian:
    """Undo the standardisation of the targets, in float64: a large mean would round the spread away."""
    shift, scale = torch.tensor([task.mean, task.std], dtype=torch.float64, device=gaussian.mean.device)
    return Gaussian(gaussian.mean.double() * scale + shift, gaussian.variance.double() * scale.square())


def gaussian_nll(gaussian: Gaussian, targets: Tensor) -> Tensor:
    """Return the negative log-likelihood of each target, without ½·log 2π; shaped like `targets`."""
    return 0.5 * (gaussian.variance.log() + (targets - gaussian.mean).square() / gaussian.variance)


def member_nll(task: Task, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the negative log-likelihood of each target: the loss before any averaging.

    Args:
        task: Decides what the outputs mean; its class weights, if it has any, multiply the result.
        outputs: Raw outputs, (…, out).
        targets: Class indices or standardised values, (…[, target]).

    Returns:
        Negative log-likelihoods, (…), in float32 also under mixed precision; the mean over several targets.
    """
    outputs = outputs.float()
    if isinstance(task, Counts):
        return negative_binomial_nll(task, outputs, targets)
    if isinstance(task, Regression):
        return _over_targets(task, gaussian_nll(as_gaussian(task, outputs), targets))
    if isinstance(task, MultiLabel | Ordinal):
        log_probs = as_log_probs(task, outputs)
        return _over_targets(task, -log_probs.gather(-1, targets[..., None]).squeeze(-1))
    given = task.class_weights if isinstance(task, WeightedClassification) else None
    weight = None if given is None else outputs.new_tensor(given)
    flat = F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1), weight, reduction="none")
    return flat.view(targets.shape)


def negative_binomial_nll(task: Counts, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the negative log-likelihood of counts, (…), without log y!, which no network changes.

    Args:
        task: Holds the unit of the targets.
        outputs: Logarithms of mean and dispersion, (…, 2).
        targets: Counts in that unit, (…).
    """
    assert isinstance(task.std, float), "counts are single numbers"
    mean = as_gaussian(task, outputs).mean * task.std
    counts, shape = (
        targets * task.std,
        torch.exp(-bounded(outputs[..., 1], MIN_LOG_VARIANCE, MAX_LOG_VARIANCE)),
    )  # 1 / κ
    likelihood = torch.lgamma(counts + shape) - torch.lgamma(shape)
    likelihood = likelihood + shape * (shape / (shape + mean)).log() + counts * (mean / (shape + mean)).log()
    return -likelihood


def _over_targets(task: Task, losses: Tensor) -> Tensor:
    """Return the mean loss over the targets of a sample, (…), if there are several."""
    return losses if num_targets(task) is None else losses.mean(dim=-1)


@dataclass(frozen=True)
class Guidance:
    """Predictions of a teacher for the samples of a batch, and how closely a student is to follow them.

    Attributes:
        outputs: (batch, teacher, [target,] number): log-probabilities at the temperature, or means and log-variances.
            After `of`, one row for each output of the student.
        weight: λ, the share of the teacher in the loss.
        temperature: τ, which softens the classes of both sides.
    """

    outputs: Tensor
    weight: float
    temperature: float

    @property
    def num_teachers(self) -> int:
        """The number of teachers to learn from; 1 if it is their mean."""
        return self.outputs.shape[1]

    def at(self, places: Tensor) -> Self:
        """Return the guidance for some of the samples."""
        return replace(self, outputs=self.outputs[places])

    def of(self, sample: Tensor, teacher: Tensor | int) -> Self:
        """Return the guidance for some samples by some teachers, as indices that broadcast to the student's outputs.

        A teacher's number is taken modulo their count.
        """
        return replace(self, outputs=self.outputs[sample, teacher % self.num_teachers])

    def of_all(self, teacher: Tensor | int) -> Self:
        """Return the guidance for the whole batch by one teacher, or by one for each sample."""
        return self.of(torch.arange(len(self.outputs), device=self.outputs.device), teacher)


def make_guidance(
    task: Task, outputs: Tensor, member_weights: Tensor | None, weight: float, temperature: float
) -> Guidance:
    """Turn the outputs of a teacher's members into guidance.

    Args:
        task: Decides what the outputs mean.
        outputs: Raw outputs of the teacher's members, (batch, member, out).
        member_weights: Weights of the mean that all students learn from, (member,); None if each member is a teacher.
        weight: λ.
        temperature: τ, for classes.
    """
    if isinstance(task, Classification):
        log_probs = softened(task, outputs, temperature)
        mean = None if member_weights is None else mix_categoricals(log_probs, member_weights).log_probs
        return Guidance(log_probs if mean is None else mean[:, None], weight, temperature)
    member = as_gaussian(task, outputs)
    if member_weights is not None:
        mixed = mix_gaussians(member.mean, member.variance, member_weights)
        member = Gaussian(mixed.mean[:, None], mixed.variance[:, None])
    return Guidance(torch.stack([member.mean, member.variance.log()], dim=-1), weight, temperature)


def member_loss(task: Task, outputs: Tensor, targets: Tensor, guidance: Guidance | None = None) -> Tensor:
    """Return the loss of each output: its negative log-likelihood, or with a teacher (1−λ)·NLL + λ·τ²·KL.

    KL is the divergence of the student's distribution from its teacher's, KL(teacher ‖ student): at temperature τ
    for classes, and without a temperature for normal distributions.

    Args:
        task: Decides what the outputs mean; class weights multiply the likelihood only.
        outputs: Raw outputs, (…, out).
        targets: Class indices or standardised values, (…).
        guidance: The teacher's predictions, aligned with the outputs.

    Returns:
        Losses, (…), in float32 also under mixed precision.
    """
    nll = member_nll(task, outputs, targets)
    if guidance is None:
        return nll
    return (1 - guidance.weight) * nll + guidance.weight * _divergence(task, outputs.float(), guidance)


def _divergence(task: Task, outputs: Tensor, guidance: Guidance) -> Tensor:
    """Return τ²·KL(teacher ‖ student) of each output, (…)."""
    if isinstance(task, Classification):
        log_probs = softened(task, outputs, guidance.temperature)
        terms = guidance.outputs.exp() * (guidance.outputs - log_probs)
        return _over_targets(task, guidance.temperature**2 * terms.sum(dim=-1))
    student, (mean, log_variance) = as_gaussian(task, outputs), guidance.outputs.unbind(dim=-1)
    distance = (log_variance.exp() + (mean - student.mean).square()) / student.variance
    return _over_targets(task, 0.5 * (student.variance.log() - log_variance + distance - 1))


def softened(task: Classification, outputs: Tensor, temperature: float) -> Tensor:
    """Return log-probabilities at a temperature, (…, [target,] class): p^(1/τ), renormalised."""
    if type(task) in (Classification, WeightedClassification):
        return (outputs / temperature).log_softmax(dim=-1)
    return (as_log_probs(task, outputs) / temperature).log_softmax(dim=-1)
