"""Greedy selection of members: its likelihoods, its steps and its limits."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from sae.core.predictive import aggregate
from sae.core.task import Classification, Regression, Task
from sae.ensemble.selection import Members, Mixtures, fit_weights, gain_held_out, select_by_depth, select_members
from sae.measure.metrics import measure_all

TASKS: list[Task] = [Classification(3), Regression(mean=50.0, std=20.0)]
every_task = pytest.mark.parametrize("task", TASKS, ids=["classes", "values"])


def predictions(task: Task, num_members: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs, (sample, member, out), of members that know something, and targets."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(40, num_members, task.num_outputs, generator=generator)
    if isinstance(task, Regression):
        scaled = torch.randn(40, generator=generator)
        noise[..., 0] = scaled[:, None] + 0.5 * noise[..., 0]
        assert isinstance(task.mean, float)
        assert isinstance(task.std, float)
        return noise, scaled * task.std + task.mean
    labels = torch.randint(3, (40,), generator=generator)
    return noise + 2 * torch.nn.functional.one_hot(labels, 3)[:, None], labels


def measured_nll(task: Task, outputs: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> float:
    return measure_all(aggregate(task, outputs, weights), targets)["nll"]


def anything(_members: Members) -> bool:
    return True


@every_task
def test_a_mixture_has_the_nll_of_the_metric(task: Task) -> None:
    outputs, targets = predictions(task)
    weights = torch.tensor([0.5, 0.0, 0.2, 0.1, 0.0, 0.2])
    found = Mixtures.of(task, outputs, targets).mixture_nll(weights)
    assert found == pytest.approx(measured_nll(task, outputs, targets, weights), rel=1e-5)


def test_probabilities_that_underflow_have_a_finite_nll() -> None:
    outputs = torch.tensor([[[0.0, 2000.0], [0.0, 2010.0]]])
    mixtures = Mixtures.of(Classification(2), outputs, torch.tensor([0]))
    assert mixtures.mixture_nll(torch.tensor([1.0, 0.0])) == pytest.approx(2000)


@every_task
def test_every_step_takes_the_member_that_a_loop_finds_best(task: Task) -> None:
    outputs, targets = predictions(task)
    selection = select_members(Mixtures.of(task, outputs, targets), anything, range(6), most_steps=8)
    assert selection is not None
    counts = torch.zeros(6)
    lowest = float("inf")
    for step in selection.steps:
        tried = [counts + torch.eye(6)[member] for member in range(6)]
        losses = [measured_nll(task, outputs, targets, count / count.sum()) for count in tried]
        assert losses[step.member] == pytest.approx(min(losses), rel=1e-6)
        assert step.nll == pytest.approx(losses[step.member], rel=1e-5)
        counts, lowest = tried[step.member], min(lowest, step.nll)
    assert selection.nll == lowest
    torch.testing.assert_close(selection.weights(6), counts / counts.sum())


@every_task
def test_the_choice_is_at_least_as_good_as_the_best_member(task: Task) -> None:
    outputs, targets = predictions(task)
    mixtures = Mixtures.of(task, outputs, targets)
    selection = select_members(mixtures, anything, range(6))
    assert selection is not None
    assert selection.nll <= min(mixtures.mixture_nll(weights) for weights in torch.eye(6))
    assert selection.nll == pytest.approx(mixtures.mixture_nll(selection.weights(6)), rel=1e-6)


def test_a_member_that_does_not_help_is_not_chosen() -> None:
    outputs = torch.tensor([[4.0, 0.0], [-4.0, 0.0]]).expand(10, 2, 2)
    selection = select_members(
        Mixtures.of(Classification(2), outputs, torch.zeros(10, dtype=torch.long)), anything, range(2)
    )
    assert selection is not None
    assert [step.member for step in selection.steps] == [0]


def test_limits_hold_at_every_step() -> None:
    outputs, targets = predictions(TASKS[0])
    asked: list[Members] = []

    def is_allowed(members: Members) -> bool:
        asked.append(members)
        return len(members) <= 2

    selection = select_members(Mixtures.of(TASKS[0], outputs, targets), is_allowed, range(6))
    assert selection is not None
    assert len(selection.members) <= 2
    assert max(map(len, asked)) == 3


def test_nothing_is_chosen_if_nothing_is_allowed() -> None:
    outputs, targets = predictions(TASKS[0])
    assert select_by_depth(Mixtures.of(TASKS[0], outputs, targets), 3, lambda _: False) is None


def test_several_shallow_members_win_over_a_deep_one_that_costs_as_much() -> None:
    labels = torch.arange(40) % 2
    right = torch.nn.functional.one_hot(labels, 2) * 3.0
    first, second = right.clone(), right.clone()
    first[:14], second[14:28] = 0.0, 0.0  # each knows two thirds
    deep = right * 0.412  # better than each of them alone, worse than both
    outputs = torch.stack([first, deep, second, right * 0], dim=1)  # (input, exit): 2 × 2
    mixtures = Mixtures.of(Classification(2), outputs, labels)
    alone = [mixtures.mixture_nll(weights) for weights in torch.eye(4)]
    assert min(alone) == alone[1]

    def is_allowed(members: Members) -> bool:
        return sum(2 if member % 2 else 1 for member in members) <= 2

    selection = select_by_depth(mixtures, 2, is_allowed)
    assert selection is not None
    assert selection.members == {0, 2}


def class_mixtures(num_members: int, num_samples: int) -> Mixtures:
    """Members of different skill."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (num_samples,), generator=generator)
    skill = torch.linspace(0.5, 1.5, num_members)[:, None]
    noise = torch.randn(num_samples, num_members, 3, generator=generator)
    outputs = noise + skill * torch.nn.functional.one_hot(labels, 3)[:, None]
    return Mixtures.of(Classification(3), outputs, labels)


def true_probs(mixtures: Mixtures) -> NDArray[np.float64]:
    return mixtures.statistics[..., 0].numpy()


def test_em_finds_the_weights_that_a_general_optimiser_finds() -> None:
    mixtures = class_mixtures(num_members=4, num_samples=400)
    found = fit_weights(mixtures, frozenset(range(4)))
    probs = true_probs(mixtures)

    def loss(logits: NDArray[np.float64]) -> float:
        weight = np.exp(logits) / np.exp(logits).sum()
        return float(-np.log(weight @ probs).mean())

    best = minimize(loss, np.zeros(4), method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-10, "xatol": 1e-6})
    weights = np.array([found.get(member, 0.0) for member in range(4)])
    assert float(-np.log(weights @ probs).mean()) == pytest.approx(best.fun, abs=1e-4)
    assert sum(found.values()) == pytest.approx(1)


def test_members_that_do_not_help_are_dropped() -> None:
    mixtures = class_mixtures(num_members=3, num_samples=300)
    statistics = torch.cat([mixtures.statistics, 0.5 * mixtures.statistics.amin(dim=0, keepdim=True)])
    found = fit_weights(Mixtures(statistics, mixtures.nll), frozenset(range(4)))
    assert 3 not in found
    assert min(found.values()) >= 1e-3


def test_only_the_given_members_are_weighed() -> None:
    assert set(fit_weights(class_mixtures(num_members=4, num_samples=100), frozenset([1, 3]))) <= {1, 3}


def test_the_gain_of_fitted_weights_is_that_of_a_loop_over_folds() -> None:
    mixtures = class_mixtures(num_members=3, num_samples=200)
    uniform, probs = torch.full((3,), 1 / 3), true_probs(mixtures)
    fold_of = (torch.randperm(200, generator=torch.Generator().manual_seed(0)) % 5).numpy()
    gains = []
    for fold in range(5):
        kept = Mixtures(mixtures.statistics[:, fold_of != fold], lambda mean: -mean.log().squeeze(-1))
        fitted = fit_weights(kept, frozenset(range(3)))
        weights = np.array([fitted.get(member, 0.0) for member in range(3)])
        held = probs[:, fold_of == fold]
        gains += list(np.log(weights @ held) - np.log(uniform.numpy() @ held))
    found = gain_held_out(mixtures, frozenset(range(3)), lambda _: uniform)
    assert found == pytest.approx(np.mean(gains), abs=1e-6)


def test_few_samples_of_equal_members_give_no_gain() -> None:
    """Members that are alike but for noise: the best weights are equal, and a few samples cannot say better."""
    gains = []
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        mixtures = Mixtures.of(Classification(3), torch.randn(20, 8, 3, generator=generator), torch.arange(20) % 3)
        gains.append(gain_held_out(mixtures, frozenset(range(8)), lambda _: torch.full((8,), 1 / 8)))
    assert np.mean(gains) < 0
