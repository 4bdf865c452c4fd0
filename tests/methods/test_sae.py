import pytest
import torch
from torch import Tensor

from sae.config.backbones import FcConfig
from sae.config.methods import SaeConfig
from sae.config.schedules import Schedule, TemperatureSchedule, UnitSchedule
from sae.core.errors import ConfigError
from sae.ensemble.exit_distribution import ExitDistribution
from sae.ensemble.training import Elbo, mix_indices, negative_elbo
from sae.methods import Batch, build_method
from sae.methods.sae import Sae
from tests.builders import SHAPE, SPEC, small_sae


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

    def spy_elbo(nll: Tensor, weights: Tensor, exits: ExitDistribution, temperature: float, kl_weight: float) -> Elbo:
        seen["temperature"].append(temperature)
        seen["kl_weight"].append(kl_weight)
        return negative_elbo(nll, weights, exits, temperature, kl_weight)

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


@pytest.mark.parametrize("exits", [0, 4, -1])
def test_a_number_of_exits_that_cannot_be_is_refused(exits: int) -> None:
    method = small_sae("fc", num_inputs=2, exits=2)
    for read in (method.member_weights, method.active_counts, method.pruned):
        with pytest.raises(ConfigError, match=r"must be in \[1, 3\] for this network"):
            read(exits)


def test_schedules_are_linear_and_exact_at_their_ends() -> None:
    schedule = Schedule(start=1.0, end=0.1)
    assert [schedule.at(p) for p in (0.0, 0.5, 1.0)] == [1.0, pytest.approx(0.55), 0.1]
