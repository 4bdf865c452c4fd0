"""Predictive distributions, from the raw outputs of the members of an ensemble.

Raw outputs, (…, out), are logits for classification, and mean and log-variance for
regression. Only this module knows what they mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from sae.core.task import Classification, Regression, Task, WeightedClassification

MIN_LOG_VARIANCE, MAX_LOG_VARIANCE = -6.0, 1.0


@dataclass(frozen=True)
class Categorical:
    """A distribution over classes for each sample.

    Log-probabilities are kept, because a probability that underflows to 0 would make the
    negative log-likelihood infinite.

    Attributes:
        log_probs: (batch, class).
    """

    log_probs: Tensor

    @property
    def probs(self) -> Tensor:
        """Probabilities, (batch, class)."""
        return self.log_probs.exp()


@dataclass(frozen=True)
class Gaussian:
    """A normal distribution for each sample.

    Attributes:
        mean: (batch,).
        variance: (batch,).
    """

    mean: Tensor
    variance: Tensor


Predictive = Categorical | Gaussian


def join(parts: Sequence[Predictive]) -> Predictive:
    """Return the predictions of several lots of samples, which are of one kind, as one."""
    tensors = zip(*(vars(part).values() for part in parts), strict=True)
    return type(parts[0])(*map(torch.cat, tensors))


def as_numbers(predictive: Predictive) -> Tensor:
    """Return the log-probabilities, or mean and variance, of each sample, (batch, number)."""
    if isinstance(predictive, Categorical):
        return predictive.log_probs
    return torch.stack([predictive.mean, predictive.variance], dim=1)


def as_gaussian(outputs: Tensor) -> Gaussian:
    """Read raw outputs (…, 2) as mean and log-variance; the latter is clamped to [−6, 1].

    Example:
        >>> as_gaussian(torch.tensor([[3.0, 0.0]]))
        Gaussian(mean=tensor([3.]), variance=tensor([1.]))
    """
    return Gaussian(outputs[..., 0], outputs[..., 1].clamp(MIN_LOG_VARIANCE, MAX_LOG_VARIANCE).exp())


def mix_categoricals(log_probs: Tensor, weight: Tensor) -> Categorical:
    """Average member probabilities, in log space so that none underflows.

    Args:
        log_probs: Member log-probabilities, (batch, member, class).
        weight: Member weights, (member,), summing to 1; a weight of 0 leaves its member out.

    Example:
        >>> halves = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log()
        >>> mix_categoricals(halves, torch.tensor([0.75, 0.25])).probs
        tensor([[0.7500, 0.2500]])
    """
    return Categorical(torch.logsumexp(log_probs + weight.log()[:, None], dim=1))


def mix_gaussians(mean: Tensor, variance: Tensor, weight: Tensor) -> Gaussian:
    """Collapse member Gaussians into one by the law of total variance.

    The result's variance is the mean of the member variances plus the variance of the
    member means: the doubt of each member, plus their disagreement.

    Args:
        mean: Member means, (batch, member).
        variance: Member variances, shaped like `mean`.
        weight: Member weights, (member,), summing to 1.

    Example:
        >>> mix_gaussians(torch.tensor([[0.0, 2.0]]), torch.ones(1, 2), torch.tensor([0.5, 0.5]))
        Gaussian(mean=tensor([1.]), variance=tensor([2.]))
    """
    mixed = (weight * mean).sum(dim=1)  # (batch,)
    disagreement = (weight * (mean - mixed[:, None]).square()).sum(dim=1)
    return Gaussian(mixed, (weight * variance).sum(dim=1) + disagreement)


def aggregate(task: Task, outputs: Tensor, weight: Tensor) -> Predictive:
    """Combine the outputs of all members into one predictive distribution, in the units of the data.

    Args:
        task: Decides what the outputs mean.
        outputs: Raw member outputs, (batch, member, out).
        weight: Member weights, (member,), summing to 1.
    """
    if isinstance(task, Classification):
        return mix_categoricals(outputs.log_softmax(dim=-1), weight)
    member = as_gaussian(outputs)
    return in_units(task, mix_gaussians(member.mean, member.variance, weight))


def member_values(task: Task, outputs: Tensor) -> Tensor:
    """Return the prediction of every member for people to read, (…, out).

    Args:
        task: Decides what the outputs mean.
        outputs: Raw outputs, (…, out).

    Returns:
        Probabilities of the classes, or mean and variance in the units of the data.

    Example:
        >>> member_values(Regression(mean=5.0, std=2.0), torch.tensor([[[1.0, 0.0]]]))
        tensor([[[7., 4.]]], dtype=torch.float64)
    """
    if isinstance(task, Classification):
        return outputs.softmax(dim=-1)
    member = in_units(task, as_gaussian(outputs))
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
        targets: Class indices or standardised values, (…).

    Returns:
        Negative log-likelihoods, (…), in float32 also under mixed precision.
    """
    outputs = outputs.float()
    if isinstance(task, Regression):
        return gaussian_nll(as_gaussian(outputs), targets)
    given = task.class_weights if isinstance(task, WeightedClassification) else None
    weight = None if given is None else outputs.new_tensor(given)
    flat = F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1), weight, reduction="none")
    return flat.view(targets.shape)


@dataclass(frozen=True)
class Guidance:
    """Predictions of a teacher for the samples of a batch, and how closely a student is to follow them.

    Attributes:
        outputs: (batch, teacher, out): log-probabilities at the temperature, or means and log-variances. After
            `of`, one row for each output of the student.
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
        log_probs = (outputs / temperature).log_softmax(dim=-1)
        mean = None if member_weights is None else mix_categoricals(log_probs, member_weights).log_probs
        return Guidance(log_probs if mean is None else mean[:, None], weight, temperature)
    member = as_gaussian(outputs)
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
        log_probs = (outputs / guidance.temperature).log_softmax(dim=-1)
        terms = guidance.outputs.exp() * (guidance.outputs - log_probs)
        return guidance.temperature**2 * terms.sum(dim=-1)
    student, (mean, log_variance) = as_gaussian(outputs), guidance.outputs.unbind(dim=-1)
    distance = (log_variance.exp() + (mean - student.mean).square()) / student.variance
    return 0.5 * (student.variance.log() - log_variance + distance - 1)
