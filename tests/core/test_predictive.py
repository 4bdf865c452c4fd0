import math

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sae.core.predictive import (
    Categorical,
    Gaussian,
    aggregate,
    as_gaussian,
    gaussian_nll,
    make_guidance,
    member_loss,
    member_nll,
    mix_categoricals,
    mix_gaussians,
)
from sae.core.task import Classification, Regression

numbers = st.floats(-50, 50, width=32)


@given(
    arrays.arrays(np.float32, (4, 3, 5), elements=numbers),
    arrays.arrays(np.float32, 3, elements=st.floats(0.125, 1, width=32)),
)
def test_mixed_probabilities_are_the_weighted_mean(logits: np.ndarray, weights: np.ndarray) -> None:
    weight = torch.from_numpy(weights / weights.sum())
    log_probs = torch.from_numpy(logits).log_softmax(-1)
    naive = (log_probs.exp() * weight[:, None]).sum(dim=1)
    torch.testing.assert_close(mix_categoricals(log_probs, weight).probs, naive, rtol=1e-4, atol=1e-6)


def test_log_probabilities_survive_where_probabilities_underflow() -> None:
    outputs = torch.tensor([[[0.0, 500.0], [0.0, 400.0]]])
    mixed = aggregate(Classification(2), outputs, torch.tensor([0.5, 0.5]))
    assert isinstance(mixed, Categorical)
    assert mixed.log_probs[0, 0].item() == pytest.approx(-400 + math.log(0.5), rel=1e-4)


def test_a_member_of_weight_zero_has_no_say() -> None:
    outputs = torch.randn(4, 2, 3)
    alone = aggregate(Classification(3), outputs[:, :1], torch.ones(1))
    mixed = aggregate(Classification(3), outputs, torch.tensor([1.0, 0.0]))
    assert isinstance(alone, Categorical)
    assert isinstance(mixed, Categorical)
    torch.testing.assert_close(mixed.log_probs, alone.log_probs)


@given(
    arrays.arrays(np.float32, (2, 3), elements=numbers),
    arrays.arrays(np.float32, (2, 3), elements=st.floats(0.125, 4, width=32)),
)
def test_mixture_variance_is_at_least_the_mean_variance(mean: np.ndarray, variance: np.ndarray) -> None:
    weight = torch.tensor([0.5, 0.3, 0.2])
    mixed = mix_gaussians(torch.from_numpy(mean), torch.from_numpy(variance), weight)
    assert (mixed.variance >= (weight * torch.from_numpy(variance)).sum(dim=1) - 1e-4).all()


def test_the_law_of_total_variance_agrees_with_sampling() -> None:
    mean, variance, weight = torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 0.25]]), torch.tensor([0.25, 0.75])
    generator = torch.Generator().manual_seed(0)
    member = torch.multinomial(weight, 200_000, replacement=True, generator=generator)
    drawn = mean[0, member] + variance[0, member].sqrt() * torch.randn(200_000, generator=generator)
    mixed = mix_gaussians(mean, variance, weight)
    assert mixed.mean.item() == pytest.approx(drawn.mean().item(), abs=0.02)
    assert mixed.variance.item() == pytest.approx(drawn.var().item(), abs=0.03)


def test_log_variance_is_clamped() -> None:
    outputs = torch.tensor([[0.0, -100.0], [0.0, 100.0]])
    assert as_gaussian(Regression(), outputs).variance.tolist() == pytest.approx([math.exp(-6), math.exp(1)])


@pytest.mark.parametrize("start", [-9.0, 4.0])
def test_a_log_variance_beyond_its_bounds_finds_back(start: float) -> None:
    outputs = torch.tensor([[0.0, start]], requires_grad=True)
    optimizer, noise = torch.optim.Adam([outputs], lr=0.1), torch.randn(200, generator=torch.Generator().manual_seed(0))
    for _ in range(200):
        optimizer.zero_grad()
        member_nll(Regression(), outputs.expand(200, 2), noise).mean().backward()
        optimizer.step()
    assert -6 < outputs[0, 1].item() < 1


def test_a_log_variance_beyond_its_bounds_goes_no_further() -> None:
    outputs = torch.tensor([[0.0, 4.0], [0.0, -9.0]], requires_grad=True)
    member_nll(Regression(), outputs, torch.tensor([9.0, 0.0])).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad[:, 1].tolist() == [0.0, 0.0]


def test_predictions_come_back_in_the_units_of_the_data() -> None:
    task = Regression(mean=100.0, std=10.0)
    mixed = aggregate(task, torch.tensor([[[1.0, 0.0]]]), torch.ones(1))
    assert isinstance(mixed, Gaussian)
    assert (mixed.mean.item(), mixed.variance.item()) == pytest.approx((110.0, 100.0))


def test_gaussian_nll_is_the_density_without_its_constant() -> None:
    gaussian, y = Gaussian(torch.tensor([1.0]), torch.tensor([4.0])), torch.tensor([2.0])
    density = torch.distributions.Normal(gaussian.mean, gaussian.variance.sqrt(), validate_args=False).log_prob(y)
    assert gaussian_nll(gaussian, y).item() == pytest.approx(-density.item() - 0.5 * math.log(2 * math.pi))


def test_the_loss_is_float32_under_mixed_precision() -> None:
    outputs = torch.randn(4, 3, dtype=torch.bfloat16)
    assert member_nll(Classification(3), outputs, torch.zeros(4, dtype=torch.long)).dtype == torch.float32


def test_the_loss_with_a_teacher_is_the_naive_loop() -> None:
    task, outputs, targets = Classification(4), torch.randn(6, 4), torch.randint(0, 4, (6,))
    members, weights = torch.randn(6, 3, 4), torch.tensor([0.5, 0.3, 0.2])
    guidance = make_guidance(task, members, weights, weight=0.7, temperature=2.0).of_all(0)
    losses = member_loss(task, outputs, targets, guidance)
    for n in range(6):
        taught = sum(w * (z / 2.0).softmax(dim=0) for w, z in zip(weights, members[n], strict=True))
        learnt = (outputs[n] / 2.0).softmax(dim=0)
        kl = sum(p * (p / q).log() for p, q in zip(taught, learnt, strict=True))
        nll = -outputs[n].softmax(dim=0)[targets[n]].log()
        assert losses[n].item() == pytest.approx((0.3 * nll + 0.7 * 4.0 * kl).item(), rel=1e-5)


def test_each_sample_may_have_a_teacher_of_its_own() -> None:
    members = torch.randn(4, 3, 5)
    guidance = make_guidance(Classification(5), members, None, weight=1.0, temperature=1.0)
    chosen = guidance.of(torch.tensor([2, 0]), torch.tensor([1, 5])).outputs
    torch.testing.assert_close(chosen, torch.stack([members[2, 1], members[0, 2]]).log_softmax(dim=1))


def test_a_student_that_predicts_what_its_teacher_does_has_nothing_to_learn() -> None:
    for task, size in ((Classification(5), 5), (Regression(), 2)):
        outputs = torch.randn(4, 1, size)
        guidance = make_guidance(task, outputs, None, weight=1.0, temperature=3.0).of_all(0)
        losses = member_loss(task, outputs[:, 0], torch.zeros(4, dtype=torch.long), guidance)
        torch.testing.assert_close(losses, torch.zeros(4), rtol=0, atol=1e-5)


def test_the_divergence_of_normal_distributions_is_torchs() -> None:
    task, outputs, members = Regression(), torch.randn(6, 2), torch.randn(6, 3, 2)
    guidance = make_guidance(task, members, torch.full((3,), 1 / 3), weight=1.0, temperature=2.0).of_all(0)
    mean, variance = members[..., 0].mean(dim=1), members[..., 1].clamp(-6, 1).exp().mean(dim=1)
    variance = variance + members[..., 0].var(dim=1, correction=0)
    student = torch.distributions.Normal(outputs[:, 0], outputs[:, 1].clamp(-6, 1).exp().sqrt())
    expected = torch.distributions.kl_divergence(torch.distributions.Normal(mean, variance.sqrt()), student)
    torch.testing.assert_close(member_loss(task, outputs, torch.zeros(6), guidance), expected)
