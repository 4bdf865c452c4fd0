"""Tasks beyond classes and single values: ordered classes, labels, counts and several values."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import expit
from scipy.stats import nbinom
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from sae.core.errors import DataError
from sae.core.predictive import (
    Categorical,
    Gaussian,
    aggregate,
    as_gaussian,
    as_log_probs,
    make_guidance,
    member_loss,
    member_nll,
    member_values,
)
from sae.core.task import Classification, Counts, MultiLabel, Ordinal, Regression, Task
from sae.measure.metrics import measure_all

WEIGHT = torch.tensor([0.5, 0.3, 0.2])
SEVERAL = Regression((1.0, -2.0), (3.0, 0.5))


def outputs(task: Task, batch: int = 6, members: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, members, task.num_outputs, generator=generator, dtype=torch.float64)


def test_ordered_classes_are_between_neighbouring_boundaries() -> None:
    raw = outputs(Ordinal(4))
    cuts = torch.cat([raw[..., :1], F.softplus(raw[..., 1:]) + 1e-4], dim=-1).cumsum(dim=-1).numpy()
    below = np.concatenate([np.zeros((6, 3, 1)), expit(cuts), np.ones((6, 3, 1))], axis=-1)
    np.testing.assert_allclose(as_log_probs(Ordinal(4), raw).exp().numpy(), np.diff(below, axis=-1), atol=1e-12)


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_no_ordered_class_is_impossible_however_large_the_outputs(size: float) -> None:
    raw = size * torch.tensor([[1.0, -1.0, -1.0], [-1.0, 1.0, 1.0]])
    assert as_log_probs(Ordinal(4), raw).isfinite().all()


def test_each_label_is_a_logistic_regression() -> None:
    task, raw = MultiLabel(num_labels=3), outputs(MultiLabel(num_labels=3))
    targets = torch.tensor([[1, 0, 1]]).expand(6, 3, 3)
    expected = F.binary_cross_entropy_with_logits(raw.float(), targets.float(), reduction="none").mean(dim=-1)
    torch.testing.assert_close(member_nll(task, raw, targets), expected)


def test_counts_have_the_likelihood_of_a_negative_binomial_distribution() -> None:
    task, raw = Counts(std=4.0), outputs(Counts(std=4.0)).float()
    counts = torch.arange(6)[:, None].expand(6, 3)
    found = member_nll(task, raw, counts / 4.0)
    mean, dispersion = 4.0 * raw[..., 0].exp().double().numpy(), raw[..., 1].clamp(-6, 1).exp().double().numpy()
    size = 1 / dispersion
    exact = -nbinom.logpmf(counts.numpy(), size, size / (size + mean))
    without_factorial = exact - torch.lgamma(counts.double() + 1).numpy()
    np.testing.assert_allclose(found.numpy(), without_factorial, rtol=1e-4)


def test_counts_have_the_variance_of_a_negative_binomial_distribution() -> None:
    task, raw = Counts(std=4.0), outputs(Counts(std=4.0))
    gaussian = as_gaussian(task, raw)
    mean, dispersion = 4.0 * raw[..., 0].exp().numpy(), raw[..., 1].clamp(-6, 1).exp().numpy()
    size = 1 / dispersion
    expected_mean, expected_variance = nbinom.stats(size, size / (size + mean), moments="mv")
    np.testing.assert_allclose(4.0 * gaussian.mean.numpy(), expected_mean)
    np.testing.assert_allclose(16.0 * gaussian.variance.numpy(), expected_variance)


def test_no_mean_of_counts_is_negative() -> None:
    raw = 1e3 * outputs(Counts(std=4.0))
    predictive = aggregate(Counts(std=4.0), raw, WEIGHT)
    assert isinstance(predictive, Gaussian)
    assert (predictive.mean > 0).all()
    assert predictive.variance.isfinite().all()


def test_several_values_are_predicted_like_each_alone() -> None:
    raw = outputs(SEVERAL)
    joint = aggregate(SEVERAL, raw, WEIGHT)
    assert isinstance(joint, Gaussian)
    for index, (mean, std) in enumerate([(1.0, 3.0), (-2.0, 0.5)]):
        alone = aggregate(Regression(mean, std), raw[..., 2 * index : 2 * index + 2], WEIGHT)
        assert isinstance(alone, Gaussian)
        torch.testing.assert_close(joint.mean[:, index], alone.mean)
        torch.testing.assert_close(joint.variance[:, index], alone.variance)


def test_several_labels_are_predicted_like_each_alone() -> None:
    task, raw = MultiLabel(num_labels=2), outputs(MultiLabel(num_labels=2))
    joint = aggregate(task, raw, WEIGHT)
    assert isinstance(joint, Categorical)
    for index in range(2):
        probs = (torch.sigmoid(raw[..., index]) * WEIGHT).sum(dim=1)
        torch.testing.assert_close(joint.probs[:, index, 1], probs)


def test_the_loss_of_several_values_is_the_mean_of_theirs() -> None:
    raw, targets = outputs(SEVERAL).float(), torch.linspace(-1, 1, 36).view(6, 3, 2)
    alone = [member_nll(Regression(), raw[..., 2 * i : 2 * i + 2], targets[..., i]) for i in range(2)]
    torch.testing.assert_close(member_nll(SEVERAL, raw, targets), torch.stack(alone).mean(dim=0))


@pytest.mark.parametrize("task", [Ordinal(4), MultiLabel(num_labels=3), Counts(std=2.0), SEVERAL])
def test_a_student_that_predicts_like_its_teacher_has_no_divergence(task: Task) -> None:
    raw = outputs(task, members=1).float()
    guidance = make_guidance(task, raw, None, weight=1.0, temperature=2.0 if isinstance(task, Classification) else 1.0)
    targets = torch.ones(raw.shape[:2] + ((3,) if isinstance(task, MultiLabel) else (2,) if task is SEVERAL else ()))
    labels = targets.long() if isinstance(task, Classification) else targets
    torch.testing.assert_close(member_loss(task, raw, labels, guidance), torch.zeros(6, 1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("task", [Ordinal(4), MultiLabel(num_labels=3)])
def test_probabilities_of_members_sum_to_one(task: Classification) -> None:
    total = member_values(task, outputs(task)).sum(dim=-1)
    torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("wrong", [-1.0, 1.5])
def test_counts_that_are_none_are_refused(wrong: float) -> None:
    with pytest.raises(DataError, match=f"counts must be whole numbers from 0, got {wrong:g} at index 1 of y"):
        Counts().check_targets(np.array([0.0, wrong]), "y")


def test_the_ranks_of_several_labels_are_averaged_over_labels() -> None:
    task, raw = MultiLabel(num_labels=3), outputs(MultiLabel(num_labels=3), batch=40)
    labels = (outputs(MultiLabel(num_labels=3), batch=40, members=1)[:, 0] + raw[:, 1] > 0).long()
    predictive = aggregate(task, raw, WEIGHT)
    assert isinstance(predictive, Categorical)
    probs = predictive.probs[..., 1].numpy()
    measured = measure_all(predictive, labels)
    assert measured["auroc"] == pytest.approx(roc_auc_score(labels.numpy(), probs, average="macro"))
    assert measured["average_precision"] == pytest.approx(average_precision_score(labels.numpy(), probs))
    assert measured["accuracy"] == pytest.approx(((probs > 0.5) == labels.numpy()).mean())
