import pytest
import torch
import torch.nn.functional as F

from sae.core.task import Classification, Regression
from sae.ensemble.exit_distribution import ExitDistribution
from sae.ensemble.objective import exit_nll, negative_elbo


def test_nll_of_all_pairs_is_the_naive_loop() -> None:
    outputs, targets = torch.randn(6, 2, 3, 4), torch.randint(0, 4, (6, 2))
    nll = exit_nll(Classification(4), outputs, targets)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(nll[i, j], F.cross_entropy(outputs[:, i, j], targets[:, i]))


def test_regression_nll_of_all_pairs_is_torchs() -> None:
    outputs, targets = torch.randn(6, 2, 3, 2), torch.randn(6, 2)
    nll = exit_nll(Regression(), outputs, targets)
    for i in range(2):
        for j in range(3):
            variance = outputs[:, i, j, 1].clamp(-6, 1).exp()
            expected = F.gaussian_nll_loss(outputs[:, i, j, 0], targets[:, i], variance, full=False)
            torch.testing.assert_close(nll[i, j], expected)


def test_the_loss_is_the_sum_of_its_named_terms() -> None:
    exits = ExitDistribution(2, 3)
    with torch.no_grad():
        exits.logits.copy_(torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]]))
    nll, weights = torch.rand(2, 3), torch.rand(2, 3)
    elbo = negative_elbo(nll, weights, exits, temperature=0.5, kl_weight=0.3)
    naive = sum(weights[i, j].item() * nll[i, j].item() for i in range(2) for j in range(3))
    assert elbo.data_fit.item() == pytest.approx(naive)
    assert elbo.loss.item() == pytest.approx(naive + 0.3 * elbo.kl.item())
    assert elbo.kl.item() == pytest.approx(exits.kl_from_uniform(0.5).item())


def test_exits_that_fit_better_gain_probability() -> None:
    exits = ExitDistribution(1, 3)
    optimizer = torch.optim.Adam(exits.parameters(), lr=0.1)
    nll, generator = torch.tensor([[1.0, 0.1, 1.0]]), torch.Generator().manual_seed(0)
    for _ in range(200):
        optimizer.zero_grad()
        negative_elbo(nll, exits.sample(1, 0.5, generator), exits, 0.5, 1e-3).loss.backward()
        optimizer.step()
    assert exits.probs(0.5).argmax().item() == 1
