import pytest
import torch
from torch import Tensor

from sae.config.backbones import FcConfig
from sae.config.method_registry import Schedule, TemperatureSchedule, UnitSchedule
from sae.config.methods import SaeConfig
from sae.core.errors import ConfigError
from sae.core.predictive import make_guidance
from sae.ensemble.exit_distribution import ExitDistribution
from sae.ensemble.training import Elbo, expected_cost, mix_indices, negative_elbo
from sae.methods import Batch, build_method
from sae.methods.costing import cost_of
from sae.methods.sae import Sae
from sae.training.trainer import Trainer
from tests.builders import SHAPE, SPEC, blobs, run_config, small_sae


def test_more_exits_than_stages_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"method.exits must be in \[1, 3\], got 4: fc has 3 stages"):
        build_method(SaeConfig(exits=4), FcConfig(depth=3), SPEC)


def test_every_member_weighs_theta_over_n() -> None:
    method = small_sae("fc", num_inputs=3, exits=2)
    expected = method.exit_distribution.weights(2, method.temperature) / 3
    torch.testing.assert_close(method.member_weights(), expected.flatten())


def test_predictions_use_the_final_temperature_after_training() -> None:
    schedule = TemperatureSchedule(start=1.0, end=0.25)
    method = build_method(SaeConfig(temperature=schedule), FcConfig(), SPEC)
    assert isinstance(method, Sae)
    assert method.temperature == 0.25
    batch = Batch(torch.randn(4, *SHAPE), torch.zeros(4, dtype=torch.long))
    method.training_loss(batch, 0.0, torch.Generator())
    assert method.temperature == 1.0


def test_one_input_is_not_repeated() -> None:
    assert small_sae("fc", num_inputs=1, exits=1).repetition == 1
    assert small_sae("fc", num_inputs=2, exits=1).repetition == 2


def test_the_schedules_reach_the_objective_and_the_mixer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[float]] = {"temperature": [], "kl_weight": [], "repeat_fraction": []}

    def spy_elbo(
        nll: Tensor, weights: Tensor, exits: ExitDistribution, temperature: float, kl_weight: float, scale: int
    ) -> Elbo:
        seen["temperature"].append(temperature)
        seen["kl_weight"].append(kl_weight)
        return negative_elbo(nll, weights, exits, temperature, kl_weight, scale)

    def spy_mixer(batch: int, inputs: int, repetition: int, fraction: float, generator: torch.Generator) -> Tensor:
        seen["repeat_fraction"].append(fraction)
        return mix_indices(batch, inputs, repetition, fraction, generator)

    monkeypatch.setattr("sae.methods.sae.negative_elbo", spy_elbo)
    monkeypatch.setattr("sae.methods.sae.mix_indices", spy_mixer)
    settings = SaeConfig(
        temperature=TemperatureSchedule(start=1.0, end=0.5),
        kl_weight=UnitSchedule(start=0.2, end=0.4),
        repeat_fraction=UnitSchedule(start=0.0, end=1.0),
    )
    method = build_method(settings, FcConfig(), SPEC)
    batch = Batch(torch.randn(4, *SHAPE), torch.zeros(4, dtype=torch.long))
    for progress in (0.0, 0.5, 1.0):
        method.training_loss(batch, progress, torch.Generator().manual_seed(0))
    assert seen["temperature"] == pytest.approx([1.0, 0.75, 0.5])
    assert seen["kl_weight"] == pytest.approx([0.2, 0.3, 0.4])
    assert seen["repeat_fraction"] == pytest.approx([0.0, 0.5, 1.0])


def test_the_loss_holds_the_weighted_regulariser() -> None:
    settings = SaeConfig(kl_weight=UnitSchedule(start=0.5, end=0.5))
    method = build_method(settings, FcConfig(), SPEC)
    assert isinstance(method, Sae)
    with torch.no_grad():
        method.exit_distribution.logits[:, 0] = 1.0
    batch = Batch(torch.randn(4, *SHAPE), torch.zeros(4, dtype=torch.long))
    loss = method.training_loss(batch, 0.5, torch.Generator().manual_seed(0))
    assert loss.terms["kl"].item() > 0.1
    assert loss.total.item() == pytest.approx((loss.terms["data_fit"] + 0.5 * loss.terms["kl"]).item())


def test_the_data_term_can_count_for_the_whole_training_split() -> None:
    batch = Batch(torch.randn(4, *SHAPE), torch.zeros(4, dtype=torch.long), population=50)
    plain, scaled = (
        build_method(SaeConfig(scale_data_fit=flag), FcConfig(), SPEC).training_loss(
            batch, 0.5, torch.Generator().manual_seed(0)
        )
        for flag in (False, True)
    )
    assert scaled.terms["data_fit"].item() == plain.terms["data_fit"].item()
    assert scaled.total.item() == pytest.approx((50 * plain.terms["data_fit"] + 0.01 * plain.terms["kl"]).item())


def test_the_trainer_tells_how_large_the_training_split_is() -> None:
    dataset = blobs(SPEC.task, num_samples=50)
    trainer = Trainer(small_sae("fc", 2, 2), dataset, run_config(train={"batch_size": 16}))
    assert {batch.population for batch in trainer.batches(0, 0)} == {50}


def test_exits_that_are_not_learnt_weigh_the_same_and_stay_the_deepest() -> None:
    dataset = blobs(SPEC.task)
    config = run_config(method={"learn_exits": False, "inputs": 2, "exits": 2}, backbone={"depth": 3})
    method = build_method(config.method, config.backbone, dataset.spec)
    assert isinstance(method, Sae)
    weights = method.exit_distribution.sample(2, 0.3, torch.Generator().manual_seed(0))
    assert torch.equal(weights, torch.full((2, 3), 2 / 3))
    trainer = Trainer(method, dataset, config)
    terms = trainer.train_epoch(0)
    assert torch.equal(method.exit_distribution.logits, torch.zeros(2, 3))
    assert terms["logit_grad_norm"] == 0
    assert torch.equal(method.exit_weights(), torch.tensor([[0.0, 0.5, 0.5]] * 2))


def priced(cost_weight: float, kl_weight: float = 0.0) -> Sae:
    settings = SaeConfig(
        inputs=2,
        exits=1,
        cost_weight=cost_weight,
        kl_weight=UnitSchedule(start=kl_weight, end=kl_weight),
        temperature=TemperatureSchedule(start=0.5, end=0.5),
    )
    method = build_method(settings, FcConfig(depth=3), SPEC)
    assert isinstance(method, Sae)
    return method


def test_the_cost_of_an_exit_is_its_share_of_the_whole_networks_flops() -> None:
    costs = priced(0.1).exit_costs
    whole = cost_of(SaeConfig(inputs=2, exits=3), FcConfig(depth=3), SHAPE, 3).flops
    second = cost_of(SaeConfig(inputs=2, exits=1), FcConfig(depth=3), SHAPE, 3, [0, 2, 0]).flops
    assert costs[1].item() == pytest.approx(second / whole)
    assert ((costs > 0) & (costs < 1)).all()


def test_the_price_of_exits_has_its_analytic_gradient() -> None:
    """∂/∂l_ik of λ/N · Σ_i Σ_j θ_ij c_j is λ/(N·T) · θ_ik · (c_k − Σ_j θ_ij c_j)."""
    batch = Batch(torch.randn(4, *SHAPE), torch.zeros(4, dtype=torch.long))
    gradients = []
    for price in (0.0, 0.7):
        method = priced(price)
        with torch.no_grad():
            method.exit_distribution.logits.copy_(torch.tensor([[0.1, -0.2, 0.3], [0.0, 0.4, -0.1]]))
        method.training_loss(batch, 0.5, torch.Generator().manual_seed(0)).total.backward()
        assert method.exit_distribution.logits.grad is not None
        gradients.append(method.exit_distribution.logits.grad)
    theta, costs = method.exit_distribution.probs(0.5).detach(), method.exit_costs
    expected = 0.7 / (2 * 0.5) * theta * (costs - (theta @ costs)[:, None])
    torch.testing.assert_close(gradients[1] - gradients[0], expected, rtol=1e-3, atol=1e-6)


def test_a_higher_price_makes_the_expected_cost_lower() -> None:
    batch, costs = Batch(torch.randn(16, *SHAPE), torch.arange(16) % 3), []
    for price in (0.0, 1.0, 10.0):
        method = priced(price, kl_weight=0.1)
        optimizer, generator = torch.optim.Adam(method.parameters(), lr=0.02), torch.Generator().manual_seed(0)
        for step in range(30):
            optimizer.zero_grad()
            method.training_loss(batch, step / 29, generator).total.backward()
            optimizer.step()
        costs.append(expected_cost(method.exit_distribution.probs(0.5), method.exit_costs).item())
    assert costs[0] > costs[1] > costs[2]


def test_the_cost_is_logged_only_where_it_has_a_price() -> None:
    batch = Batch(torch.randn(4, *SHAPE), torch.zeros(4, dtype=torch.long))
    before = torch.get_rng_state()
    terms = [priced(price).training_loss(batch, 0.5, torch.Generator().manual_seed(0)).terms for price in (0.0, 0.5)]
    assert torch.equal(torch.get_rng_state(), before)
    assert [set(each) for each in terms] == [{"data_fit", "kl"}, {"data_fit", "kl", "cost"}]
    assert 0 < terms[1]["cost"].item() < 1


def test_a_price_of_exits_that_are_not_learnt_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"method.cost_weight must be 0 where method.learn_exits is false, got 0.5"):
        build_method(SaeConfig(learn_exits=False, cost_weight=0.5), FcConfig(), SPEC)


@pytest.mark.parametrize("exits", [0, 4, -1])
def test_a_number_of_exits_that_cannot_be_is_refused(exits: int) -> None:
    method = small_sae("fc", num_inputs=2, exits=2)
    for read in (method.member_weights, method.active_counts, method.pruned):
        with pytest.raises(ConfigError, match=r"must be in \[1, 3\] for this network"):
            read(exits)


def test_schedules_are_linear_and_exact_at_their_ends() -> None:
    schedule = Schedule(start=1.0, end=0.1)
    assert [schedule.at(p) for p in (0.0, 0.5, 1.0)] == [1.0, pytest.approx(0.55), 0.1]


def test_every_pair_learns_what_its_teacher_says_about_its_sample() -> None:
    sae = small_sae("fc", 2, 2)
    guidance = make_guidance(SPEC.task, torch.randn(5, 4, 3), None, weight=0.5, temperature=2.0)
    batch = Batch(torch.randn(5, *SPEC.shape), torch.zeros(5, dtype=torch.long), guidance=guidance)
    index = mix_indices(5, 2, 2, 0.0, torch.Generator().manual_seed(0))
    found = sae._guidance(batch, index)
    assert found is not None
    assert found.outputs.shape == (10, 2, sae.depth, 3)
    for position in range(10):
        for i in range(2):
            for j in range(sae.depth):
                expected = guidance.outputs[index[position, i], (2 * i + j) % 4]
                assert torch.equal(found.outputs[position, i, j], expected)
