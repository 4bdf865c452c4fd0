import itertools
import math
from dataclasses import astuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from sae.core.predictive import Categorical, Gaussian, as_gaussian, mix_gaussians
from sae.core.task import Classification, Regression, Task
from sae.measure import uncertainty
from sae.measure.uncertainty import (
    auroc,
    disagreement,
    diversity,
    entropy,
    error_correlation,
    error_correlations,
    fpr95,
    interval_metrics,
    risk_coverage,
    selection_loss,
    variance_parts,
)

CLASSES = Classification(4)
WEIGHT = torch.tensor([0.5, 0.3, 0.2])


def outputs(seed: int, width: int = 4) -> torch.Tensor:
    return torch.randn(30, 3, width, generator=torch.Generator().manual_seed(seed)) * 2


def test_entropy_is_torchs() -> None:
    logits = outputs(0)[:, 0]
    expected = torch.distributions.Categorical(logits=logits, validate_args=False).entropy()
    torch.testing.assert_close(entropy(Categorical(logits.log_softmax(-1))), expected)
    gaussian = Gaussian(torch.zeros(3), torch.tensor([0.5, 1.0, 2.0]))
    normal = torch.distributions.Normal(gaussian.mean, gaussian.variance.sqrt(), validate_args=False)
    torch.testing.assert_close(entropy(gaussian), normal.entropy())


def test_entropy_of_a_certain_prediction_is_zero() -> None:
    assert entropy(Categorical(torch.tensor([[0.0, -torch.inf]]))).item() == 0.0


def test_disagreement_is_the_mean_divergence_of_members_from_the_mixture() -> None:
    probs = outputs(1).softmax(-1)
    mixed = (probs * WEIGHT[:, None]).sum(1)
    naive = (WEIGHT * (probs * (probs.log() - mixed.log()[:, None])).sum(-1)).sum(-1)
    torch.testing.assert_close(disagreement(CLASSES, outputs(1), WEIGHT), naive, rtol=1e-4, atol=1e-5)


def test_members_that_agree_have_no_disagreement() -> None:
    same = outputs(2)[:, :1].expand(-1, 3, -1)
    assert disagreement(CLASSES, same, WEIGHT).max().item() == pytest.approx(0.0, abs=1e-6)


def test_variance_parts_add_up_to_the_mixture() -> None:
    raw = outputs(3, width=2)
    parts = variance_parts(Regression(), raw, WEIGHT)
    member = as_gaussian(Regression(), raw)
    whole = mix_gaussians(member.mean, member.variance, WEIGHT).variance
    torch.testing.assert_close(parts.within + parts.between, whole)
    naive = (WEIGHT * (member.mean - (WEIGHT * member.mean).sum(1, keepdim=True)).square()).sum(1)
    torch.testing.assert_close(parts.between, naive, rtol=1e-4, atol=1e-5)


def test_regression_disagreement_is_in_the_units_of_the_data() -> None:
    raw = outputs(3, width=2)
    one, ten = (disagreement(Regression(std=std), raw, WEIGHT) for std in (1.0, 10.0))
    torch.testing.assert_close(ten, 100 * one)


def test_diversity_is_the_naive_loop_over_pairs() -> None:
    raw = outputs(4)
    log_probs = raw.double().log_softmax(-1)
    differ, kl = [], []
    for m in range(3):
        for n in range(3):
            if m != n:
                p, q = log_probs[:, m], log_probs[:, n]
                differ.append((p.argmax(-1) != q.argmax(-1)).double().mean().item())
                kl.append((p.exp() * (p - q)).sum(-1).mean().item())
    measured = diversity(CLASSES, raw, WEIGHT)
    assert measured is not None
    assert measured.disagreement == pytest.approx(np.mean(differ))
    assert measured.kl == pytest.approx(np.mean(kl))


def test_regression_diversity_is_torchs_divergence() -> None:
    raw = outputs(5, width=2)
    member = as_gaussian(Regression(), raw.double())
    kl, squared = [], []
    for m in range(3):
        for n in range(3):
            if m != n:
                p, q = (
                    torch.distributions.Normal(member.mean[:, i], member.variance[:, i].sqrt(), validate_args=False)
                    for i in (m, n)
                )
                kl.append(torch.distributions.kl_divergence(p, q).mean().item())
                squared.append((member.mean[:, m] - member.mean[:, n]).square().mean().item())
    measured = diversity(Regression(std=2.0), raw, WEIGHT)
    assert measured is not None
    assert measured.kl == pytest.approx(np.mean(kl))
    assert measured.disagreement == pytest.approx(2 * math.sqrt(np.mean(squared)))


@pytest.mark.parametrize("task", [CLASSES, Regression(std=2.0)])
def test_diversity_in_pieces_is_that_of_the_whole(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = outputs(6, 4 if task is CLASSES else 2)
    whole = diversity(task, raw, WEIGHT)
    monkeypatch.setattr(uncertainty, "ROWS_AT_ONCE", 7)
    pieces = diversity(task, raw, WEIGHT)
    assert whole is not None
    assert pieces is not None
    assert astuple(pieces) == pytest.approx(astuple(whole), rel=1e-12)


def test_one_member_has_no_diversity_and_unused_members_do_not_count() -> None:
    assert diversity(CLASSES, outputs(6), torch.tensor([1.0, 0.0, 0.0])) is None
    two = diversity(CLASSES, outputs(6), torch.tensor([0.5, 0.0, 0.5]))
    assert two == diversity(CLASSES, outputs(6)[:, [0, 2]], torch.tensor([0.5, 0.5]))


def test_risk_coverage_is_the_naive_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    uncertainty, loss = torch.rand(40, generator=generator), (torch.rand(40, generator=generator) < 0.3).double()
    curve = risk_coverage(uncertainty, loss)
    order = np.argsort(uncertainty.numpy())
    naive = [loss.numpy()[order[: k + 1]].mean() for k in range(40)]
    assert curve.risk.tolist() == pytest.approx(naive)
    assert curve.coverage[-1].item() == 1.0
    assert curve.area == pytest.approx(np.mean(naive))


TIED = torch.tensor([0.2, 0.7, 0.2, 0.7, 0.7, 0.1])
TIED_LOSS = torch.tensor([1.0, 0.25, 0.0, 1.0, 0.5, 0.0])


def test_ties_give_the_mean_over_all_their_orders() -> None:
    curves = []
    for order in itertools.permutations(range(6)):
        uncertainty = TIED[list(order)]
        if (uncertainty.diff() >= 0).all():  # an order by certainty; every order of the ties is one
            curves.append(TIED_LOSS[list(order)].double().cumsum(0) / torch.arange(1, 7))
    assert len(curves) == 2 * 6
    curve = risk_coverage(TIED, TIED_LOSS)
    torch.testing.assert_close(curve.risk, torch.stack(curves).mean(dim=0))
    assert curve.area == pytest.approx(torch.stack(curves).mean().item(), rel=1e-12)


@given(order=st.permutations(range(30)))
def test_the_area_does_not_depend_on_the_order_of_samples(order: list[int]) -> None:
    generator = torch.Generator().manual_seed(1)
    uncertainty = torch.randint(4, (30,), generator=generator).double()
    loss = torch.rand(30, generator=generator)
    assert risk_coverage(uncertainty[order], loss[order]).area == risk_coverage(uncertainty, loss).area


def test_a_better_ranking_has_a_smaller_area() -> None:
    loss = torch.tensor([0.0, 0.0, 1.0, 1.0])
    good, bad = torch.tensor([0.1, 0.2, 0.8, 0.9]), torch.tensor([0.9, 0.8, 0.2, 0.1])
    assert risk_coverage(good, loss).area < risk_coverage(bad, loss).area


def test_intervals_of_a_true_gaussian_cover_what_they_say() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, variance = torch.randn(20_000, generator=generator), torch.rand(20_000, generator=generator) + 0.5
    targets = mean + variance.sqrt() * torch.randn(20_000, generator=generator)
    measured = interval_metrics(Gaussian(mean, variance), targets)
    for level in (50, 90, 95):
        assert measured[f"coverage_{level}"] == pytest.approx(level / 100, abs=0.01)
    assert measured["width_95"] == pytest.approx(2 * 1.95996 * variance.sqrt().mean().item(), rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_auroc_and_fpr95_are_scikit_learns(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    inside = torch.randint(0, 30, (60,), generator=generator).float()  # with ties
    outside = torch.randint(10, 40, (45,), generator=generator).float()
    truth, scores = np.r_[np.zeros(60), np.ones(45)], torch.cat([inside, outside]).numpy()
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(truth, scores))
    false_rate, true_rate, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert fpr95(inside, outside) == pytest.approx(false_rate[np.argmax(true_rate >= 0.95)])


def test_keeping_a_sample_costs_its_error() -> None:
    categorical = Categorical(torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log())
    assert selection_loss(categorical, torch.tensor([0, 0])).tolist() == [0.0, 1.0]
    gaussian = Gaussian(torch.tensor([1.0, 3.0]), torch.ones(2))
    assert selection_loss(gaussian, torch.tensor([1.0, 1.0])).tolist() == [0.0, 4.0]


@pytest.mark.parametrize("task", [CLASSES, Regression(mean=5.0, std=2.0)], ids=["classes", "values"])
def test_the_error_correlation_is_the_mean_of_numpys_over_pairs_of_used_members(task: Task) -> None:
    raw = outputs(3, task.num_outputs)
    if isinstance(task, Classification):
        targets = torch.randint(4, (30,), generator=torch.Generator().manual_seed(4))
        errors = (raw.argmax(dim=-1) != targets[:, None]).double().numpy()
    else:
        targets = torch.randn(30, generator=torch.Generator().manual_seed(4)) * 2 + 5
        errors = (raw[..., 0] * 2 + 5 - targets[:, None]).double().numpy()
    expected = np.corrcoef(errors.T)
    np.testing.assert_allclose(error_correlations(task, raw, targets).numpy(), expected, atol=1e-6)
    pairs = [expected[0, 1], expected[0, 2], expected[1, 2]]
    assert error_correlation(task, raw, WEIGHT, targets) == pytest.approx(np.mean(pairs), abs=1e-6)
    two = torch.tensor([0.5, 0.0, 0.5])
    assert error_correlation(task, raw, two, targets) == pytest.approx(expected[0, 2], abs=1e-6)


def test_members_that_err_together_have_correlation_1() -> None:
    same = outputs(0)[:, :1].expand(-1, 3, -1)
    targets = torch.randint(4, (30,), generator=torch.Generator().manual_seed(1))
    assert error_correlation(CLASSES, same, WEIGHT, targets) == pytest.approx(1)


def test_one_member_and_members_that_are_always_right_have_no_error_correlation() -> None:
    raw = outputs(0)
    targets = raw[:, 0].argmax(dim=-1)  # the first member is always right
    assert error_correlation(CLASSES, raw, torch.tensor([1.0, 0.0, 0.0]), targets) is None
    assert error_correlation(CLASSES, raw, torch.tensor([0.5, 0.5, 0.0]), targets) is None
    later = error_correlations(CLASSES, raw, targets)[1, 2].item()
    assert error_correlation(CLASSES, raw, WEIGHT, targets) == pytest.approx(later)
