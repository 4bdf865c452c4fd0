import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sae.core.task import Classification, Regression
from sae.ensemble.exit_distribution import ExitDistribution
from sae.ensemble.training import (
    exit_loss,
    expected_cost,
    mix_indices,
    negative_elbo,
    num_repeated,
    teacher_of,
)


def mix(batch: int, num_inputs: int, repetition: int, fraction: float, seed: int = 0) -> Tensor:
    return mix_indices(batch, num_inputs, repetition, fraction, torch.Generator().manual_seed(seed))


@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 3), st.floats(0, 1), st.integers(0, 50))
def test_every_input_sees_every_sample_equally_often(
    batch: int, num_inputs: int, repetition: int, fraction: float, seed: int
) -> None:
    index = mix(batch, num_inputs, repetition, fraction, seed)
    assert index.shape == (batch * repetition, num_inputs)
    for column in index.T:
        assert torch.bincount(column, minlength=batch).tolist() == [repetition] * batch


@given(st.integers(1, 20), st.integers(2, 4), st.floats(0, 1))
def test_the_last_positions_show_all_inputs_the_same_sample(batch: int, num_inputs: int, fraction: float) -> None:
    index = mix(batch, num_inputs, 2, fraction)
    repeated = index[len(index) - num_repeated(len(index), fraction) :]
    assert (repeated == repeated[:, :1]).all()


def test_a_repeat_fraction_of_one_gives_identical_inputs() -> None:
    index = mix(16, 3, 2, 1.0)
    assert (index == index[:, :1]).all()


def test_a_repeat_fraction_of_zero_gives_independent_shuffles() -> None:
    agree = torch.stack([(mix(50, 2, 1, 0.0, seed).diff(dim=1) == 0).float().mean() for seed in range(200)])
    assert abs(agree.mean().item() - 1 / 50) < 0.005  # as often as chance has it


def test_the_common_order_is_itself_shuffled() -> None:
    assert mix(32, 1, 1, 1.0).flatten().tolist() != list(range(32))


def test_the_number_of_repeated_positions_is_rounded_up() -> None:
    assert [num_repeated(10, fraction) for fraction in (0.0, 0.01, 0.7, 0.71, 1.0)] == [0, 1, 7, 8, 10]


def test_nll_of_all_pairs_is_the_naive_loop() -> None:
    outputs, targets = torch.randn(6, 2, 3, 4), torch.randint(0, 4, (6, 2))
    nll = exit_loss(Classification(4), outputs, targets)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(nll[i, j], F.cross_entropy(outputs[:, i, j], targets[:, i]))


def test_regression_nll_of_all_pairs_is_torchs() -> None:
    outputs, targets = torch.randn(6, 2, 3, 2), torch.randn(6, 2)
    nll = exit_loss(Regression(), outputs, targets)
    for i in range(2):
        for j in range(3):
            variance = outputs[:, i, j, 1].clamp(-6, 1).exp()
            expected = F.gaussian_nll_loss(outputs[:, i, j, 0], targets[:, i], variance, full=False)
            torch.testing.assert_close(nll[i, j], expected)


def test_the_loss_is_the_sum_of_its_named_terms() -> None:
    learnt = ExitDistribution(2, 3)
    with torch.no_grad():
        learnt.logits.copy_(torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]]))
    nll, weights = torch.rand(2, 3), torch.rand(2, 3)
    elbo = negative_elbo(nll, weights, learnt, temperature=0.5, kl_weight=0.3)
    naive = sum(weights[i, j].item() * nll[i, j].item() for i in range(2) for j in range(3))
    assert elbo.data_fit.item() == pytest.approx(naive)
    assert elbo.loss.item() == pytest.approx(naive + 0.3 * elbo.kl.item())
    assert elbo.kl.item() == pytest.approx(learnt.kl_from_uniform(0.5).item())


@pytest.mark.parametrize("task", [Classification(4), Regression()], ids=["classes", "values"])
def test_the_loss_and_the_price_of_exits_are_those_of_float32_also_under_mixed_precision(
    task: Classification | Regression,
) -> None:
    learnt = ExitDistribution(2, 3)
    with torch.no_grad():
        learnt.logits.copy_(torch.tensor([[0.1, 1.0, 2.0], [1.0, 0.0, 0.3]]))
    outputs, costs = torch.randn(6, 2, 3, task.num_outputs).bfloat16(), torch.tensor([0.1234567, 0.7654321, 1.0])
    targets = torch.randint(0, 4, (6, 2)) if isinstance(task, Classification) else torch.randn(6, 2)

    def loss() -> tuple[Tensor, Tensor]:
        learnt.zero_grad()
        drawn = learnt.sample(2, 0.5, torch.Generator().manual_seed(0))
        elbo = negative_elbo(exit_loss(task, outputs, targets), drawn, learnt, 0.5, 0.1)
        total = elbo.loss + expected_cost(learnt.probs(0.5), costs)
        total.backward()
        assert learnt.logits.grad is not None
        return total.detach(), learnt.logits.grad

    plain = loss()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = loss()
    for found, expected in zip(mixed, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


def test_exits_that_fit_better_gain_probability() -> None:
    learnt = ExitDistribution(1, 3)
    optimizer = torch.optim.Adam(learnt.parameters(), lr=0.1)
    nll, generator = torch.tensor([[1.0, 0.1, 1.0]]), torch.Generator().manual_seed(0)
    for _ in range(200):
        optimizer.zero_grad()
        negative_elbo(nll, learnt.sample(1, 0.5, generator), learnt, 0.5, 1e-3).loss.backward()
        optimizer.step()
    assert learnt.probs(0.5).argmax().item() == 1


def test_pairs_of_an_input_and_an_exit_share_the_teachers_as_the_formula_says() -> None:
    for num_teachers in (1, 3, 4, 6):
        found = teacher_of(num_teachers, num_inputs=3, depth=2)
        for i in range(3):
            for j in range(2):
                assert found[i, j].item() == (i * (num_teachers // 3) + j) % num_teachers
