import math
from typing import Literal

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sae.ensemble.exit_distribution import MIN_WEIGHT, ExitDistribution, gumbel, relaxed_top_k, top_k_mask

temperatures = st.floats(1e-3, 1.0)
logit_arrays = arrays.arrays(np.float32, (3, 5), elements=st.floats(-4, 4, width=32))


def distribution(logits: Tensor) -> ExitDistribution:
    learnt = ExitDistribution(*logits.shape)
    with torch.no_grad():
        learnt.logits.copy_(logits)
    return learnt


def test_logits_start_at_zero_so_that_all_exits_are_equal() -> None:
    learnt = ExitDistribution(2, 4)
    torch.testing.assert_close(learnt.probs(0.3), torch.full((2, 4), 0.25))


@given(temperatures)
def test_uniform_theta_has_no_kl(temperature: float) -> None:
    assert ExitDistribution(3, 5).kl_from_uniform(temperature).item() == pytest.approx(0.0, abs=1e-6)


@given(logit_arrays, temperatures)
def test_kl_is_the_naive_sum(logits: np.ndarray, temperature: float) -> None:
    naive = 0.0
    for row in logits.astype(np.float64) / temperature:
        theta = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        naive += sum(p * math.log(p * len(row)) for p in theta if p > 0)
    kl = distribution(torch.from_numpy(logits)).kl_from_uniform(temperature).item()
    assert kl == pytest.approx(naive, rel=1e-4, abs=1e-5)


@given(logit_arrays, temperatures, st.integers(1, 5), st.integers(0, 100))
def test_sampled_weights_sum_to_k_and_are_finite(logits: np.ndarray, temperature: float, k: int, seed: int) -> None:
    learnt = distribution(torch.from_numpy(logits))
    weights = learnt.sample(k, temperature, torch.Generator().manual_seed(seed))
    torch.testing.assert_close(weights.sum(dim=-1), torch.full((3,), float(k)), rtol=1e-4, atol=1e-4)
    weights.square().sum().backward()
    assert learnt.logits.grad is not None
    assert learnt.logits.grad.isfinite().all()


def test_relaxed_top_k_is_the_formula_of_the_specification() -> None:
    perturbed, temperature, epsilon = torch.randn(2, 4, generator=torch.Generator().manual_seed(0)), 0.7, 1e-8
    a, p, w = perturbed, torch.zeros(2, 4), torch.zeros(2, 4)
    for _ in range(3):
        a = a + (1 - p).clamp_min(epsilon).log()
        p = torch.softmax(a / temperature, dim=-1)
        w = w + p
    torch.testing.assert_close(relaxed_top_k(perturbed, 3, temperature), w)


@given(st.integers(1, 5), st.integers(0, 1000))
def test_a_cold_sample_is_the_top_k_of_perturbed_logits(k: int, seed: int) -> None:
    perturbed = torch.randn(3, 5, generator=torch.Generator().manual_seed(seed)) * 3
    gaps = perturbed.sort(dim=-1).values.diff(dim=-1)
    if gaps.min() < 0.05:  # a near tie is split, as it should be
        return
    hard = top_k_mask(perturbed, k).float()
    torch.testing.assert_close(relaxed_top_k(perturbed, k, 1e-3), hard, atol=1e-3, rtol=0)


@pytest.mark.parametrize("noise_on", ["logits", "tempered"])
def test_the_noise_is_added_where_the_setting_says(noise_on: Literal["logits", "tempered"]) -> None:
    learnt = ExitDistribution(2, 3, noise_on=noise_on)
    with torch.no_grad():
        learnt.logits.copy_(torch.tensor([[0.0, 0.5, 1.0], [0.3, 0.0, -0.3]]))
    found = learnt.sample(2, 0.5, torch.Generator().manual_seed(3))
    uniform = torch.rand(2, 3, generator=torch.Generator().manual_seed(3)).tolist()
    for i in range(2):
        scale = 0.5 if noise_on == "tempered" else 1.0
        a = [learnt.logits[i, j].item() / scale - math.log(-math.log(uniform[i][j])) for j in range(3)]
        p, w = [0.0] * 3, [0.0] * 3
        for _ in range(2):
            a = [a[j] + math.log(max(1 - p[j], 1e-8)) for j in range(3)]
            exps = [math.exp(a[j] / 0.5) for j in range(3)]
            p = [one / sum(exps) for one in exps]
            w = [w[j] + p[j] for j in range(3)]
        assert found[i].tolist() == pytest.approx(w, rel=1e-4)


def test_samples_with_the_noise_on_tempered_logits_follow_theta_at_the_temperature() -> None:
    learnt = ExitDistribution(1, 3, noise_on="tempered")
    with torch.no_grad():
        learnt.logits.copy_(torch.tensor([[0.0, 0.05, 0.1]]))
        generator = torch.Generator().manual_seed(0)
        counts = torch.stack([learnt.sample(1, 0.05, generator).argmax() for _ in range(4000)]).bincount()
    torch.testing.assert_close(counts[None] / 4000, learnt.probs(0.05).detach(), atol=0.03, rtol=0)


def test_samples_choose_an_exit_as_often_as_theta_says() -> None:
    learnt = distribution(torch.tensor([[0.0, 1.0, 2.0]]))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        counts = sum(learnt.sample(1, 1e-3, generator).round() for _ in range(4000))
    assert isinstance(counts, Tensor)
    torch.testing.assert_close(counts / 4000, learnt.probs(1.0).detach(), atol=0.03, rtol=0)


def test_gumbel_noise_is_finite_at_the_ends() -> None:
    assert gumbel(torch.tensor([0.0, 1.0 - 2**-24])).isfinite().all()


@given(logit_arrays, temperatures, st.integers(1, 5))
def test_evaluation_weights_are_at_most_k_and_sum_to_one(logits: np.ndarray, temperature: float, k: int) -> None:
    weights = distribution(torch.from_numpy(logits)).weights(k, temperature)
    assert ((weights > 0).sum(dim=-1) <= k).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3))
    assert (weights[weights > 0] >= MIN_WEIGHT).all()


def test_evaluation_weights_are_a_softmax_over_the_kept_logits() -> None:
    weights = distribution(torch.tensor([[0.3, 0.1, 0.2]])).weights(2, 0.5)
    kept = torch.tensor([0.3, 0.2]).div(0.5).softmax(0)
    torch.testing.assert_close(weights, torch.tensor([[kept[0], 0.0, kept[1]]]))


def test_small_weights_are_dropped_and_the_rest_renormalised() -> None:
    weights = distribution(torch.tensor([[0.0, 1.0, 1.0]])).weights(3, 0.1)
    torch.testing.assert_close(weights, torch.tensor([[0.0, 0.5, 0.5]]))


def test_the_deepest_exit_wins_a_tie() -> None:
    mask = top_k_mask(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), 2)
    assert mask.tolist() == [[True, False, False, True]]


def test_the_distribution_is_float32_under_mixed_precision() -> None:
    learnt = ExitDistribution(2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        sampled = learnt.sample(2, 1e-3, torch.Generator().manual_seed(0))
        assert sampled.dtype == learnt.probs(1e-3).dtype == learnt.kl_from_uniform(1e-3).dtype == torch.float32


def test_the_data_move_theta_also_where_all_exits_are_kept() -> None:
    learnt = ExitDistribution(1, 5)
    losses = torch.tensor([[3.0, 2.0, 1.0, 0.5, 0.4]])  # of the exits; the deepest is best
    total = torch.zeros(())
    for seed in range(200):
        total = total + (learnt.sample(5, 0.5, torch.Generator().manual_seed(seed)) * losses).mean() / 200
    total.backward()
    assert learnt.logits.grad is not None
    gradient = learnt.logits.grad[0]
    assert gradient[0] > 0.01 > 0 > gradient[-1]  # the worst exit is to lose, the best to gain
